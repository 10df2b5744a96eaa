// A recipe, read: every name resolved and every parameter checked, nothing built yet. This is what
// `sgtrain check` does, and the only place where a run's registries are asked.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"
#include "loader/loader.h"
#include "models/kd_module.h"
#include "recipe/recipe.h"
#include "train/launch_plan.h"
#include "train/training_params.h"

namespace sgtrain::train {

/// One data set with its transforms and loader.
struct DataPlan {
  std::string name;  // "train", "val", or the name of a test set
  data::Dataset::Registry::MakerType dataset;
  data::Pipeline::Params transforms;
  loader::LoaderParams loader;
  std::optional<cv::Size> input_dim;  // the data set's own first resize
};

/// `checkpoint_params`: where the first weights come from.
struct WeightsPlan {
  std::optional<std::string> checkpoint_path, pretrained_weights;
  bool load_backbone = false;
  std::string strict_load = "no_key_matching";  // off, on, no_key_matching, key_matching
  std::optional<int> checkpoint_num_classes;
};

/// `architecture: kd_module`: the run's model is the student, and this its teacher.
struct DistillationPlan {
  std::string teacher_architecture;
  models::Model::Registry::MakerType teacher;
  WeightsPlan teacher_weights;
  models::KDModuleParams params;
};

/// Short keys that need the data or the model.
struct ExtraPlan {
  std::vector<std::string> freeze;  // prefixes of parameters that are not trained
  int freeze_layers = 0;            // or the first so many layers with weights
  bool cache = false;               // decoded pictures stay in memory
  double fraction = 1.0;            // of the training set
  int close_mosaic = 0;             // the last epochs go without mosaic and mixup
};

/// Which parts of the recipe the command needs.
struct Needs {
  bool training = true;  // else evaluation: no train set, optimizer keys are read all the same
  bool validation = true;
  bool tests = false;  // there must be test sets
};

struct RunPlan {
  std::string experiment_name, architecture;
  std::filesystem::path ckpt_root_dir;
  std::filesystem::path recipe_dir;  // relative data paths are looked up here first
  models::Model::Registry::MakerType model;
  core::TreePtr arch_params;  // as read; checkpoints keep it, so that predict can build the model
  int num_classes = 0;
  WeightsPlan weights;
  std::optional<DistillationPlan> distillation;
  std::vector<std::string> class_names;  // of dataset_params; empty: the data set's own
  std::optional<DataPlan> train, valid;
  std::vector<DataPlan> tests;
  TrainingParams training;
  ExtraPlan extra;
  LaunchPlan launch;
  std::string resolved_recipe;  // flat YAML
  std::filesystem::path file;   // the recipe itself
  std::vector<std::string> notes;
};

/// Composes and reads a recipe.
/// @throws core::InputError with every mistake, each with file:line and key
RunPlan plan_run(const recipe::LoadOptions& options, const Needs& needs = {});

}  // namespace sgtrain::train
