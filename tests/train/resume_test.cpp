// A run that ends anywhere and is resumed equals the one that was left alone, bit for bit.
#include <catch2/catch.hpp>

#include <csignal>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/signals.h"
#include "tensor/checkpoint.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using train::Callback;
using train::PhaseContext;
using train::Requests;
using train::Stage;
using train::testing::TinyRun;

namespace {

/// Ends the run at a moment: by a signal, or by an error that nothing catches, after
/// which only what is on the disk already is left.
class EndAt final : public Callback {
 public:
  struct Params {
    std::string moment;
    int batch = 0;
    bool crash = false;
    int epoch = 1;
    static Params from(core::Node& n) {
      return {.moment = n.get<std::string>("moment"),
              .batch = n.get_or("batch", 0),
              .crash = n.get_or("crash", false),
              .epoch = n.get_or("epoch", 1)};
    }
  };
  explicit EndAt(Params params) : p_(std::move(params)) {}
  Requests on_train_loader_start(PhaseContext& c) override { return at("train_start", c); }
  Requests on_train_batch_end(PhaseContext& c) override { return at("train_batch", c); }
  Requests on_train_loader_end(PhaseContext& c) override { return at("train_end", c); }
  Requests on_validation_loader_start(PhaseContext& c) override { return at("valid_start", c); }
  Requests on_validation_batch_end(PhaseContext& c) override { return at("valid_batch", c); }
  Requests on_validation_loader_end(PhaseContext& c) override { return at("valid_end", c); }
  Requests on_test_batch_end(PhaseContext& c) override { return at("test_batch", c); }
  Requests on_validation_end_best_epoch(PhaseContext& c) override { return at("best", c); }

 private:
  Requests at(const std::string& moment, const PhaseContext& c) const {
    if (moment != p_.moment || c.state.epoch != p_.epoch || c.batch_index != p_.batch) return {};
    if (p_.crash) throw core::Error("the run ends here");
    core::signals::request_stop(SIGTERM);
    return {};
  }
  Params p_;
};
SGTRAIN_REGISTER(Callback, EndAt, "EndAt");

constexpr const char* kLines =
    "  initial_lr: 0.05\n  batch_accumulate: 2\n  ema: True\n  metric_to_watch: CrossEntropyLoss\n"
    "  greater_metric_to_watch_is_better: False\n";

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct End {
  tensor::StateDict weights, average;
  train::NamedValues valid, test;
  double best = 0.0;
  int best_epoch = -1;
  bool operator==(const End& other) const {
    const auto same = [](const tensor::StateDict& a, const tensor::StateDict& b) {
      return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.first == y.first && at::equal(x.second, y.second);
      });
    };
    return same(weights, other.weights) && same(average, other.average) && valid == other.valid &&
           test == other.test && best == other.best && best_epoch == other.best_epoch;
  }
};

End end_of(train::Run& run, train::Trainer& trainer) {
  const auto result = trainer.fit();
  return {run.model->state_dict(), run.ema->state_dict(), result.valid_values,
          result.test_values,      result.best_metric,    result.best_epoch};
}

End whole_run(const std::string& lines) {
  const TinyRun tiny(lines, 4, /*test_set=*/true);
  const auto run = tiny.run(/*saves=*/true);
  train::Trainer trainer(*run);
  End end = end_of(*run, trainer);
  for (auto* dict : {&end.weights, &end.average}) {
    for (auto& [name, value] : *dict) value = value.clone();
  }
  return end;
}

/// Goes on from ckpt_latest without the callback that ended it.
End resumed(const TinyRun& tiny, train::TrainState* begin = nullptr) {
  const auto run = tiny.run(/*saves=*/true, {"training_hyperparams.phase_callbacks=[]"});
  train::Trainer trainer(*run);
  trainer.resume(tiny.run_dir() / "ckpt_latest.pth");
  if (begin != nullptr) *begin = trainer.state();
  End end = end_of(*run, trainer);
  for (auto* dict : {&end.weights, &end.average}) {
    for (auto& [name, value] : *dict) value = value.clone();
  }
  return end;
}

std::string end_at(const std::string& params) {
  return std::string("  phase_callbacks: [EndAt: {") + params + "}]\n";
}

}  // namespace

TEST_CASE("a signal in any stage saves there, and the resumed run ends the same", "[train]") {
  const std::string lines = std::string("  max_epochs: 3\n") + kLines;
  const End whole = whole_run(lines);
  struct Case {
    const char* moment;
    int batch;
    int epoch, next_batch;  // where the checkpoint stands
    Stage stage;
  };
  // Batches 5 to 9 are those of epoch 1; a step is made of two.
  for (const Case& c : std::vector<Case>{{"train_start", 0, 1, 1, Stage::kTrain},
                                         {"train_batch", 1, 1, 3, Stage::kTrain},
                                         {"train_end", 0, 1, 5, Stage::kValidate},
                                         {"valid_start", 0, 1, 5, Stage::kValidate},
                                         {"valid_batch", 1, 1, 5, Stage::kValidate},
                                         {"test_batch", 0, 1, 5, Stage::kTest},
                                         {"best", 0, 1, 0, Stage::kTrain}}) {
    INFO(c.moment);
    const TinyRun tiny(
        lines + end_at(std::string("moment: ") + c.moment + ", batch: " + std::to_string(c.batch) +
                       (c.moment == std::string("best") ? ", epoch: 0" : "")),
        4, /*test_set=*/true);
    {
      const auto run = tiny.run(/*saves=*/true);
      train::Trainer trainer(*run);
      CHECK_THROWS_AS(trainer.fit(), core::Interrupted);
    }
    core::signals::reset();
    train::TrainState begin;
    CHECK(resumed(tiny, &begin) == whole);
    CHECK(begin.epoch == c.epoch);
    CHECK(begin.batch == c.next_batch);
    CHECK(begin.stage == c.stage);
  }
}

TEST_CASE("after a crash the run goes on from the last epoch, validated or not", "[train]") {
  // Validation comes in epoch 4 only; every epoch is saved all the same.
  const std::string lines = std::string("  max_epochs: 5\n  run_validation_freq: 5\n") + kLines;
  const End whole = whole_run(lines);
  const TinyRun tiny(lines + end_at("moment: train_batch, batch: 2, epoch: 3, crash: True"), 4,
                     true);
  CHECK_THROWS_WITH(train::Trainer(*tiny.run(true)).fit(), "the run ends here");
  train::TrainState begin;
  CHECK(resumed(tiny, &begin) == whole);
  CHECK(begin.epoch == 3);
  CHECK(begin.batch == 0);
}

TEST_CASE("save_every_minutes: after a crash the run goes on within the epoch", "[train]") {
  const std::string lines = std::string("  max_epochs: 3\n  save_every_minutes: 1.0e-9\n") + kLines;
  const End whole = whole_run(lines);
  const TinyRun tiny(lines + end_at("moment: train_batch, batch: 3, crash: True"), 4, true);
  CHECK_THROWS_WITH(train::Trainer(*tiny.run(true)).fit(), "the run ends here");
  train::TrainState begin;
  CHECK(resumed(tiny, &begin) == whole);
  CHECK(begin.epoch == 1);
  CHECK(begin.batch == 3);  // after the step of batches 7 and 8 of the run
}

TEST_CASE("a run that diverges ends with its last good checkpoint", "[train]") {
  const TinyRun tiny(
      "  max_epochs: 3\n  initial_lr: 1.0e+30\n  lr_warmup_epochs: 1\n  warmup_initial_lr: 0.01\n"
      "  max_non_finite_steps: 2\n");
  const auto run = tiny.run(/*saves=*/true);
  CHECK_THROWS_WITH(train::Trainer(*run).fit(), Catch::Contains("2 steps in a row"));
  const auto checkpoint = tensor::Checkpoint::read(tiny.run_dir() / "ckpt_latest.pth");
  CHECK(checkpoint.epoch == 1);
  for (const auto& [name, value] : checkpoint.net) {
    INFO(name);
    CHECK(at::isfinite(value.to(at::kDouble)).all().item<bool>());
  }
}

TEST_CASE("weights that are no numbers are found in the first step, by tensor and image",
          "[train]") {
  const TinyRun tiny("  max_epochs: 2\n  initial_lr: 0.05\n  max_non_finite_steps: 2\n");
  train::Trainer(*tiny.run(/*saves=*/true, {"training_hyperparams.max_epochs=1"})).fit();
  const auto file = tiny.run_dir() / "ckpt_latest.pth";
  auto checkpoint = tensor::Checkpoint::read(file);
  for (auto& [name, value] : checkpoint.net) {
    if (name == "linear.weight") value.fill_(std::numeric_limits<float>::infinity());
  }
  checkpoint.write(file);
  const std::string before = bytes_of(file);
  const auto run = tiny.run(/*saves=*/true);
  train::Trainer trainer(*run);
  trainer.resume(file);
  CHECK_THROWS_WITH(trainer.fit(), Catch::Contains("output 'logits'") &&
                                       Catch::Contains("train-images-idx3-ubyte"));
  CHECK(bytes_of(file) == before);
}
