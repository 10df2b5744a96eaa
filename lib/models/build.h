// Weights for a model: fitting a state_dict to it in the reference's four ways, and finding the
// file that a recipe names.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "tensor/module.h"

namespace sgtrain::models {

/// SuperGradients' StrictLoad.
enum class StrictLoad {
  kOff,            // by name; entries missing on either side are left out
  kOn,             // by name, every entry on both sides
  kNoKeyMatching,  // as kOn, else one by one in order, when all shapes agree
  kKeyMatching,    // every entry whose name and shape fit
};

/// "on", "off", "True", "False", "no_key_matching", "key_matching" in any case; nullopt otherwise.
std::optional<StrictLoad> find_strict_load(std::string_view name);
/// The same; an unknown name is an InputError.
StrictLoad strict_load_from(std::string_view name);

/// What became of a state_dict.
struct LoadReport {
  std::size_t matched = 0;           // entries of the model that were filled
  std::vector<std::string> missing;  // entries of the model that were not
  std::vector<std::string> ignored;  // entries of the file that were not used
  bool by_order = false;             // positional, names differ
  std::string stripped_prefix;       // removed from the file's names: "module."
  /// One line: counts, and the first names of what is missing or was ignored.
  std::string summary() const;
};

/// Copies `state` into `module`, converting types. Prefixes that other trainers put before every
/// name (module., _orig_mod., net., model.) are removed when the names then fit better; of a
/// distillation's checkpoint the student is taken.
/// @param where the file, for errors
/// @throws core::InputError listing what does not fit, and when nothing fits
LoadReport load_state(tensor::Module& module, const tensor::StateDict& state, StrictLoad strict,
                      const std::string& where);

/// Number of classes of the head in `state`; nullopt when it has none of the model's head entries.
std::optional<int> classes_of(const Model& model, const tensor::StateDict& state);

/// Loads `state`. When its head has another number of classes than the model's, the model takes the
/// file's head, loads it, and gets a new head of its own size (`allow_new_head`), or that is an
/// InputError naming both counts.
LoadReport load_model_state(Model& model, const tensor::StateDict& state, StrictLoad strict,
                            const std::string& where, bool allow_new_head);

/// `checkpoint_params` of a recipe.
struct WeightsRequest {
  std::optional<std::string> checkpoint_path{};     // file, or run folder (its best checkpoint)
  std::optional<std::string> pretrained_weights{};  // data set: file <architecture>_<data set>.pth
  StrictLoad strict = StrictLoad::kNoKeyMatching;
  bool backbone_only = false;                   // fill `backbone` alone
  std::optional<int> checkpoint_num_classes{};  // of the file's head; default: read from it
  std::filesystem::path base_dir{};             // relative paths are looked up here first
};

/// The file that a request names.
/// @throws core::InputError with every place that was looked at
std::filesystem::path weights_file(const std::string& architecture, const WeightsRequest& request);

/// Finds the file, fits its weights (moving average before raw ones), draws a new head when the
/// class counts differ, and returns lines for the log that say what was done.
std::string load_weights(Model& model, const std::string& architecture,
                         const WeightsRequest& request);

/// The file of `pretrained_weights`: looked for in $SGTRAIN_CACHE/weights,
/// ~/.cache/sgtrain/weights, $TORCH_HOME/hub/checkpoints and ~/.cache/torch/hub/checkpoints; the
/// error lists them.
std::filesystem::path find_pretrained(const std::string& architecture, const std::string& data_set);

}  // namespace sgtrain::models
