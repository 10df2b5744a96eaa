// A model ready for inference, from a checkpoint file alone where possible.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/processing.h"
#include "models/model.h"
#include "postprocess/postprocess.h"

namespace sgtrain::predict {

/// The file that `--checkpoint` names: itself, or a run folder's best (else latest) checkpoint.
/// @throws core::InputError listing what was looked for
std::filesystem::path checkpoint_file(const std::filesystem::path& name);

/// The resolved recipe that a checkpoint of ours carries; nullopt for other files.
std::optional<std::string> recipe_of(const std::filesystem::path& checkpoint);

/// What the user says; unset: what the checkpoint says.
struct ModelRequest {
  std::filesystem::path checkpoint;
  std::optional<std::string> architecture;  // needed for files that do not name it
  std::optional<int> num_classes;
  std::optional<int> image_size;  // square input, for files without preprocessing
  std::vector<double> mean{},
      std{};  // of the colours in [0, 1], one or three; empty: not normalised
  bool skip_image_resizing = false;
  /// The post-prediction callback of the first validation metric that has one, from the recipe
  /// inside the checkpoint, instead of the thresholds for showing predictions.
  bool like_validation = false;
  postprocess::Thresholds thresholds;
};

struct LoadedModel {
  std::unique_ptr<models::Model> model;  // evaluation mode, channels_last, unfused
  std::string architecture;
  std::vector<std::string> class_names;  // one per class; numbers as text when nothing names them
  data::Preprocessing preprocessing;
  std::unique_ptr<postprocess::DetectionPostprocess> postprocess;  // detection
  std::string precision;                                           // of training; empty: unknown
  std::optional<int> validation_batch_size;                        // with like_validation
};

/// @throws core::InputError that names what is missing and the option that gives it
LoadedModel load_model(const ModelRequest& request);

}  // namespace sgtrain::predict
