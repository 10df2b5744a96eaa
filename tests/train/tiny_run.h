// A whole run on a generated data set, small enough for unit tests: the real plan, assembly and
// Trainer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "support/temp_dir.h"
#include "train/assemble.h"
#include "train/run_plan.h"
#include "train/trainer.h"

namespace sgtrain::train::testing {

/// IDX files of `count` pictures of 8 x 8 pixels whose bytes are a function of their index.
inline void write_idx(const std::filesystem::path& folder, const std::string& name, int count) {
  const auto number = [](std::ofstream& out, int value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.put(static_cast<char>(value >> shift));
  };
  std::ofstream images(folder / (name + "-images-idx3-ubyte"), std::ios::binary);
  images.write("\0\0\10\3", 4);
  for (const int size : {count, 8, 8}) number(images, size);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 64; ++k)
      images.put(static_cast<char>((i * 37 + k * k * (i % 10 + 1)) & 255));
  }
  std::ofstream labels(folder / (name + "-labels-idx1-ubyte"), std::ios::binary);
  labels.write("\0\0\10\1", 4);
  number(labels, count);
  for (int i = 0; i < count; ++i) labels.put(static_cast<char>(i % 10));
}

class TinyRun {
 public:
  /// @param hyperparams lines of training_hyperparams beside max_epochs, loss, metrics
  /// 20 training pictures and 8 for validation, which is the test set "extra" too when asked for.
  explicit TinyRun(const std::string& hyperparams, int batch_size = 4, bool test_set = false,
                   bool shuffle = true) {
    write_idx(dir_.path(), "train", 20);
    write_idx(dir_.path(), "t10k", 8);
    const std::string root = dir_.path().string();
    std::ofstream recipe(dir_.path() / "recipe.yaml");
    recipe << "architecture: custom_resnet_cifar\n"
              "arch_params: {structure: [1, 1, 1, 1], width_mult: 0.0625, num_classes: 10}\n"
              "train_dataloader:\nval_dataloader:\n"
           << (test_set ? "test_dataloaders: {extra: null}\n" : "") << "dataset_params:\n"
           << "  train_dataset_params: {root: " << root << ", transforms: [ToTensor]}\n"
           << "  train_dataloader_params: {dataset: FashionMNIST, batch_size: " << batch_size
           << ", shuffle: " << (shuffle ? "True" : "False") << "}\n"
           << "  val_dataset_params: {root: " << root << ", train: False, transforms: [ToTensor]}\n"
           << "  val_dataloader_params: {dataset: FashionMNIST, batch_size: 4}\n"
           << (test_set ? "  test_dataset_params: {root: " + root +
                              ", train: False, transforms: [ToTensor]}\n"
                              "  test_dataloader_params: {dataset: FashionMNIST, batch_size: 8}\n"
                        : "")
           << "training_hyperparams:\n  loss: CrossEntropyLoss\n"
           << "  train_metrics_list: [Accuracy]\n  valid_metrics_list: [Accuracy]\n"
           << hyperparams << "experiment_name: tiny\ndevice: cpu\n";
  }

  std::filesystem::path folder() const { return dir_.path(); }
  std::filesystem::path run_dir() const { return dir_.path() / "run"; }

  RunPlan plan(const std::vector<std::string>& overrides = {}) const {
    recipe::LoadOptions load;
    load.recipe = (dir_.path() / "recipe.yaml").string();
    load.overrides = overrides;
    return plan_run(load);
  }

  /// @param saves false: no run folder
  std::unique_ptr<Run> run(bool saves = false,
                           const std::vector<std::string>& overrides = {}) const {
    Place place;
    place.comm = dist::make_single();
    place.make_run_dir = [this, saves] {
      if (saves) std::filesystem::create_directories(run_dir());
      return saves ? run_dir() : std::filesystem::path{};
    };
    return assemble(plan(overrides), std::move(place));
  }

 private:
  support::TempDir dir_;
};

}  // namespace sgtrain::train::testing
