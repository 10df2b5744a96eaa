// Training parameters that no other test watches: each does what it says.
#include <ATen/Parallel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "core/log.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"
#include "train/entry.h"
#include "train/tiny_run.h"

using namespace sgtrain;
namespace fs = std::filesystem;
using train::testing::TinyRun;

namespace {

const char* const kLines = "  max_epochs: 1\n  initial_lr: 0.01\n";

/// Blackens the network's input.
class BlackCallback final : public train::Callback {
 public:
  void before_forward(at::Tensor& images, tensor::Targets&, train::PhaseContext&) override {
    images = at::zeros_like(images);
    ++calls;
  }
  static inline int calls = 0;
};
using train::Callback;
SGTRAIN_REGISTER(Callback, BlackCallback, "BlackCallback");

struct CountValidation final : train::Callback {
  train::Requests on_validation_batch_end(train::PhaseContext&) override {
    ++batches;
    return {};
  }
  int batches = 0;
};

std::string key(const std::string& name) {
  return "+training_hyperparams." + name;
}

std::vector<fs::path> run_dirs(const fs::path& root) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(root / "tiny")) {
    if (entry.path().filename().string().starts_with("RUN_")) out.push_back(entry.path());
  }
  return out;
}

std::string event_bytes(const fs::path& dir) {
  std::string bytes;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (!entry.path().filename().string().starts_with("events.out")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return bytes;
}

}  // namespace

TEST_CASE("ckpt_best_name names the best file", "[train]") {
  const TinyRun tiny(kLines);
  const auto run = tiny.run(/*saves=*/true, {key("ckpt_best_name=winner.pth")});
  const auto result = train::Trainer(*run).fit();
  CHECK(result.best_checkpoint == tiny.run_dir() / "winner.pth");
  CHECK(fs::exists(tiny.run_dir() / "winner.pth"));
  CHECK_FALSE(fs::exists(tiny.run_dir() / "ckpt_best.pth"));
}

TEST_CASE("ckpt_name is the file that a resume starts from", "[train]") {
  const TinyRun tiny(kLines);
  const fs::path root = tiny.folder() / "runs";
  const auto log = core::log::options();  // a command sets both for its process
  const int threads = at::get_num_threads();
  const auto train = [&](std::vector<std::string> overrides) {
    overrides.push_back("+ckpt_root_dir=" + root.string());
    recipe::LoadOptions load;
    load.recipe = (tiny.folder() / "recipe.yaml").string();
    load.overrides = overrides;
    CHECK(train::train_recipe(load, {}) == 0);
  };
  train({"training_hyperparams.max_epochs=2", key("save_ckpt_epoch_list=[1]")});
  REQUIRE(run_dirs(root).size() == 1);
  const fs::path dir = run_dirs(root).front();
  const auto first = tensor::Checkpoint::read(dir / "ckpt_latest.pth").net;
  // From the first epoch on again: the same end, in the same folder.
  train(
      {"training_hyperparams.max_epochs=2", key("resume=True"), key("ckpt_name=ckpt_epoch_1.pth")});
  CHECK(run_dirs(root).size() == 1);
  const auto again = tensor::Checkpoint::read(dir / "ckpt_latest.pth");
  CHECK(again.epoch == 2);
  for (std::size_t i = 0; i < first.size(); ++i)
    CHECK(at::equal(first[i].second, again.net[i].second));
  // No such file: a new run.
  train({key("resume=True"), key("ckpt_name=none.pth")});
  CHECK(run_dirs(root).size() == 2);
  core::log::configure(log);
  at::set_num_threads(threads);
}

TEST_CASE("load_opt_params and resume_strict_load decide what a resume takes over", "[train]") {
  const TinyRun tiny(kLines);
  {
    const auto run = tiny.run(/*saves=*/true);
    train::Trainer(*run).fit();
  }
  const fs::path file = tiny.run_dir() / "ckpt_latest.pth";
  for (const bool loads : {true, false}) {
    const auto run =
        tiny.run(false, {key(std::string("load_opt_params=") + (loads ? "True" : "False"))});
    train::Trainer(*run).resume(file);
    std::size_t buffers = 0;
    for (const auto& [index, slots] : run->optimizer->state_dict().state) buffers += slots.size();
    CHECK((buffers > 0) == loads);
  }
  auto checkpoint = tensor::Checkpoint::read(file);
  std::erase_if(checkpoint.net, [](const auto& entry) { return entry.first == "linear.bias"; });
  const fs::path partial = tiny.folder() / "partial.pth";
  tensor::write_pth(partial, checkpoint.to_value());
  {
    const auto run = tiny.run();
    train::Trainer(*run).resume(partial);
  }
  const auto strict = tiny.run(false, {key("resume_strict_load=True")});
  train::Trainer trainer(*strict);
  CHECK_THROWS_WITH(trainer.resume(partial), Catch::Contains("linear.bias"));
}

TEST_CASE("mixed_precision is precision: auto", "[train]") {
  const TinyRun tiny(kLines);
  CHECK(tiny.plan().training.precision == "fp32");
  CHECK(tiny.plan({key("mixed_precision=True")}).training.precision == "auto");
  CHECK(tiny.plan({key("mixed_precision=True"), key("precision=bf16")}).training.precision ==
        "bf16");
}

TEST_CASE("pre_prediction_callback exchanges the network's input, in training only", "[train]") {
  const TinyRun tiny(kLines);
  const auto run = tiny.run(false, {key("pre_prediction_callback=BlackCallback")});
  BlackCallback::calls = 0;
  train::Trainer(*run).fit();
  CHECK(BlackCallback::calls == 5);
  // The first layer saw zeros: its weights got no gradient, and decayed at most.
  const auto plain = tiny.run();
  const at::Tensor before = plain->model->named_parameters().front().tensor->clone();
  const at::Tensor after = *run->model->named_parameters().front().tensor;
  CHECK(at::allclose(after, before, 1e-4, 0.0));
  train::Trainer(*plain).fit();
  CHECK_FALSE(at::allclose(*plain->model->named_parameters().front().tensor, before, 1e-4, 0.0));
}

TEST_CASE("max_valid_batches ends validations, seed decides the weights", "[train]") {
  const TinyRun tiny(kLines);
  const auto run = tiny.run(false, {key("max_valid_batches=1")});
  auto callback = std::make_unique<CountValidation>();
  const CountValidation& seen = *callback;
  run->callbacks.push_back({"count", std::move(callback)});
  train::Trainer(*run).fit();
  CHECK(seen.batches == 1);
  const auto weight = [&](const std::vector<std::string>& overrides) {
    return tiny.run(false, overrides)->model->named_parameters().front().tensor->clone();
  };
  CHECK(at::equal(weight({}), weight({key("seed=42")})));
  CHECK_FALSE(at::equal(weight({}), weight({key("seed=43")})));
}

TEST_CASE("sg_logger and sg_logger_params reach the logger", "[train]") {
  const TinyRun tiny(kLines);
  CHECK_THROWS_WITH(tiny.plan({key("sg_logger=bse_sg_logger")}), Catch::Contains("base_sg_logger"));
  CHECK_THROWS_WITH(tiny.plan({key("sg_logger_params={storage_location: 's3://b'}")}),
                    Catch::Contains("storage_location"));
  for (const bool monitors : {true, false}) {
    const auto run = tiny.run(
        /*saves=*/true,
        {key(std::string("sg_logger_params={monitor_system: ") + (monitors ? "True}" : "False}"))});
    train::Trainer(*run).fit();
    const std::string bytes = event_bytes(tiny.run_dir());
    CHECK((bytes.find("System/memory.usage_percent") != std::string::npos) == monitors);
    CHECK(bytes.find("valid_accuracy") != std::string::npos);
    fs::remove_all(tiny.run_dir());
  }
}
