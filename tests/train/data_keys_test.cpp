// Short keys change what a run does: what the network sees and which weights move (freeze, cache,
// fraction, mosaic, close_mosaic), on tiny detection runs.
#include <catch2/catch.hpp>

#include <filesystem>
#include <functional>
#include <set>

#include "support/composites.h"
#include "support/temp_dir.h"
#include "train/assemble.h"
#include "train/data_key.h"
#include "train/metric_name.h"
#include "train/run_plan.h"
#include "train/trainer.h"

using namespace sgtrain;
namespace fs = std::filesystem;
using train::Callback;
using train::PhaseContext;
using train::Requests;

namespace {

constexpr int kImages = 4, kBatch = 2;

/// The batches of each epoch, as the network got them before normalisation.
class Watcher final : public Callback {
 public:
  explicit Watcher(std::function<void()> after_first) : after_first_(std::move(after_first)) {}
  Requests on_train_batch_start(PhaseContext& c) override {
    seen.resize(static_cast<std::size_t>(c.state.epoch) + 1);
    seen.back().push_back(c.batch->images.clone());
    return {};
  }
  Requests on_train_loader_end(PhaseContext& c) override {
    if (c.state.epoch == 0 && after_first_) after_first_();
    return {};
  }
  std::vector<std::vector<at::Tensor>> seen;

 private:
  std::function<void()> after_first_;
};

class Detection {
 public:
  Detection() {
    const auto make = [&](const char* split, int images, std::uint64_t seed) {
      support::write_coco(
          folder(), split,
          support::make_composites(
              {.images = images, .size = {64, 64}, .max_items = 2, .classes = 2, .seed = seed}),
          2);
    };
    make("train", kImages, 1);
    make("val", 2, 2);
  }
  fs::path folder() const { return dir_.path() / "data"; }

  struct Result {
    std::vector<std::vector<at::Tensor>> seen;
    std::unique_ptr<train::Run> run;
    tensor::StateDict before;
    train::NamedValues valid_values;
  };
  std::unique_ptr<train::Run> assemble(std::vector<std::string> keys) const {
    std::vector<std::string> overrides{"data=" + folder().string(),
                                       "pretrained=false",
                                       "imgsz=64",
                                       "batch=" + std::to_string(kBatch),
                                       "val_batch_size=2",
                                       "workers=0",
                                       "epochs=2",
                                       "device=cpu",
                                       "training_hyperparams.precision=fp32",
                                       "training_hyperparams.run_validation_freq=2"};
    overrides.insert(overrides.end(), keys.begin(), keys.end());
    recipe::LoadOptions load;
    load.recipe = "yolo_nas_finetune";
    load.overrides = std::move(overrides);
    load.edit = train::apply_data_key;
    train::Place place;
    place.comm = dist::make_single();
    return train::assemble(train::plan_run(load), std::move(place));
  }
  /// Two epochs, with more keys; `between` is called after the first.
  Result fit(std::vector<std::string> keys, std::function<void()> between = {}) const {
    Result result;
    result.run = assemble(std::move(keys));
    for (const auto& [name, value] : result.run->model->state_dict())
      result.before.emplace_back(name, value.clone());
    auto own = std::make_unique<Watcher>(std::move(between));
    Watcher& watcher = *own;
    result.run->callbacks.push_back({"watcher", std::move(own)});
    result.valid_values = train::Trainer(*result.run).fit().valid_values;
    result.seen = std::move(watcher.seen);
    return result;
  }

 private:
  support::TempDir dir_;
};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(),
                    [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

}  // namespace

TEST_CASE("values of detection metrics have the names that were announced", "[train]") {
  const Detection detection;
  const auto result = detection.fit({"epochs=1", "training_hyperparams.max_train_batches=1"});
  const auto names = train::logged_names(*result.run);
  CHECK(names.size() > 15);  // PPYoloELoss, DetectionMetrics_050, CocoBox
  REQUIRE(result.valid_values.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(result.valid_values[i].first == names[i]);
    CHECK(train::resolve_metric_name(names[i], names) == names[i]);
  }
  for (const char* usual : {"mAP@0.50", "F1@0.50", "Precision@0.50", "Recall@0.50",
                            "PPYoloELoss/loss", "COCO_AP@0.50:0.95"})
    CHECK(train::resolve_metric_name(usual, names) == usual);
}

TEST_CASE("mosaic changes the pictures and close_mosaic ends that in the last epochs", "[train]") {
  const Detection detection;
  const auto plain = detection.fit({"mosaic=0"}).seen;
  const auto mosaic = detection.fit({"mosaic=1", "close_mosaic=0"}).seen;
  const auto closed = detection.fit({"mosaic=1", "close_mosaic=1"}).seen;
  REQUIRE(plain.size() == 2);
  REQUIRE(plain[0].size() == kImages / kBatch);
  CHECK_FALSE(equal(mosaic[0], plain[0]));
  CHECK_FALSE(equal(mosaic[1], plain[1]));
  CHECK(equal(closed[0], mosaic[0]));
  CHECK(equal(closed[1], plain[1]));
}

TEST_CASE("cache=ram reads no picture twice; fraction trains on a part", "[train]") {
  const Detection detection;
  const auto plain = detection.fit({}).seen;
  const auto part = detection.fit({"fraction=0.5"});
  REQUIRE(part.seen[0].size() == kImages / kBatch / 2);
  CHECK(part.run->train_set->size() == kImages / 2);
  CHECK(part.run->valid_set->size() == 2);
  // The pictures go after the first epoch, and nobody notices.
  const auto kept = detection.fit({"cache=ram"},
                                  [&] { fs::remove_all(detection.folder() / "images" / "train"); });
  CHECK(equal(kept.seen[0], plain[0]));
  CHECK(equal(kept.seen[1], plain[1]));
}

TEST_CASE("freeze: what it names stays as it was drawn, the rest learns", "[train]") {
  const Detection detection;
  const auto moved = [&](const std::string& freeze) {
    const auto result = detection.fit({freeze, "epochs=1"});
    std::set<std::string> names;  // first word of the parameters that changed
    std::size_t i = 0;
    const auto after = result.run->model->state_dict();
    REQUIRE(after.size() == result.before.size());
    std::set<std::string> parameters;
    for (const auto& ref : result.run->model->named_parameters()) parameters.insert(ref.name);
    for (const auto& [name, value] : after) {
      if (parameters.contains(name) && !at::equal(value, result.before[i].second))
        names.insert(name.substr(0, name.find('.')));
      ++i;
    }
    return names;
  };
  CHECK(moved("freeze=backbone") == std::set<std::string>{"heads", "neck"});
  CHECK(moved("freeze=[backbone,neck]") == std::set<std::string>{"heads"});
  // By number: the first layers of the backbone.
  const auto run = detection.assemble({"freeze=3"});
  int frozen = 0;
  bool rest_learns = true;
  for (const auto& ref : run->model->named_parameters()) {
    frozen += ref.tensor->dim() >= 2 && !ref.tensor->requires_grad() ? 1 : 0;
    rest_learns = rest_learns && (ref.tensor->requires_grad() || ref.name.starts_with("backbone"));
  }
  CHECK(frozen == 3);
  CHECK(rest_learns);
}
