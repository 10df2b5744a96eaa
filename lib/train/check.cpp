#include "train/check.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "core/log.h"
#include "core/writable.h"
#include "data/check.h"
#include "loader/loader.h"
#include "models/build.h"
#include "train/places.h"

namespace sgtrain::train {
namespace {

class Checker {
 public:
  explicit Checker(const RunPlan& plan) : plan_(plan) {}

  /// Whatever `part` throws as wrong input is one mistake; a mistake is listed once.
  template <class Part>
  void run(const Part& part) {
    try {
      part();
    } catch (const core::Error& error) {
      const std::string text = error.what();
      if (std::find(mistakes_.begin(), mistakes_.end(), text) == mistakes_.end())
        mistakes_.push_back(text);
    }
  }

  void data() {
    std::vector<const DataPlan*> sets;
    if (plan_.train) sets.push_back(&*plan_.train);
    if (plan_.valid) sets.push_back(&*plan_.valid);
    for (const DataPlan& test : plan_.tests) sets.push_back(&test);
    std::unique_ptr<data::Dataset> first;
    for (const DataPlan* set : sets) {
      std::unique_ptr<data::Dataset> dataset;
      run([&] { dataset = set->dataset(data::Paths(plan_.recipe_dir)); });
      if (!dataset) continue;
      one_set(*set, *dataset);
      if (first) {
        run([&] { data::check_same_classes(*first, *dataset); });
      } else {
        first = std::move(dataset);
      }
    }
  }

  int processes = 1;  // that share an epoch

  std::vector<std::string> take() { return std::move(mistakes_); }

 private:
  void one_set(const DataPlan& set, const data::Dataset& dataset) {
    core::log::result("{}: {}\n", set.name, dataset.report().text());
    const data::Report pictures = data::check_images(dataset, data::CheckDepth::kHeaders);
    if (pictures.count(data::Finding::kBadImage) > 0 || !pictures.warnings.empty() ||
        pictures.count(data::Finding::kSizeMismatch) > 0) {
      core::log::result("{} pictures: {}\n", set.name, pictures.text());
    }
    run([&] { data::check_num_classes(dataset, plan_.num_classes, set.name); });
    if (!plan_.class_names.empty())
      run([&] { data::check_class_names(plan_.class_names, dataset, set.name); });
    run([&] {
      const data::Pipeline pipeline(set.transforms, dataset.task(),
                                    "dataset_params." + set.name + ".transforms");
      // An epoch must have a batch, on every process.
      const loader::Loader loader(dataset, pipeline, set.loader,
                                  {.seed = 0,
                                   .shard = {.index = 0, .count = processes},
                                   .training = set.name == "train",
                                   .pinned = false});
    });
  }

  const RunPlan& plan_;
  std::vector<std::string> mistakes_;
};

}  // namespace

void require_weights(const RunPlan& plan) {
  const WeightsPlan& weights = plan.weights;
  if (!weights.checkpoint_path && !weights.pretrained_weights) return;
  models::weights_file(plan.architecture, {.checkpoint_path = weights.checkpoint_path,
                                           .pretrained_weights = weights.pretrained_weights,
                                           .base_dir = plan.recipe_dir});
}

void require_run_root(const RunPlan& plan) {
  if (!plan.training.save_model) return;
  const std::filesystem::path root = plan.ckpt_root_dir;
  if (core::can_make_folder(root)) return;
  const auto there = core::nearest_existing(root);
  throw core::InputError(
      "run folders cannot be written here: " + there.string() +
          (std::filesystem::is_directory(there) ? " is not writable" : " is no folder"),
      "ckpt_root_dir: " + std::filesystem::absolute(root).lexically_normal().string(),
      "name another folder");
}

std::vector<std::string> mistakes_of(const RunPlan& plan, bool data) {
  Checker checker(plan);
  checker.run([&] { checker.processes = decide_places(plan.launch).processes; });
  checker.run([&] { require_weights(plan); });
  checker.run([&] { require_run_root(plan); });
  if (data) checker.data();
  return checker.take();
}

}  // namespace sgtrain::train
