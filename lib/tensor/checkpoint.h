// The checkpoint of a training run, with the keys of the reference implementation's `.pth` files,
// and the weights of any file that a user may bring.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/module.h"
#include "tensor/value.h"

namespace sgtrain::tensor {

/// Metrics of one validation.
struct MetricRecord {
  std::string tracked_metric_name;                    // metric_to_watch
  std::vector<std::pair<std::string, double>> valid;  // name, value
  std::vector<std::pair<std::string, double>> train;
};

/// Written as `ckpt_latest.pth` and so on. Values that a run does not have are not written.
struct Checkpoint {
  StateDict net;                     // the weights that are trained
  std::optional<StateDict> ema_net;  // their moving average
  std::optional<double> acc;         // value of the watched metric
  std::int64_t epoch = 0;            // epochs that are done
  MetricRecord metrics;
  std::optional<MetricRecord> best_metrics;  // "_best_ckpt_metrics"
  std::vector<std::pair<std::string, std::string>> packages;
  Value optimizer_state_dict;  // torch.optim's layout, see optim/optimizer.h
  Value scaler_state_dict;     // torch.cuda.amp.GradScaler's, {} when it is off
  Value torch_scheduler_state_dict;
  Value processing_params;  // class names, preprocessing and thresholds as plain values
  Value sgtrain;            // what an exact resume needs beyond the above

  /// Throws core::InputError (see read_pth; `net` missing or not made of tensors).
  static Checkpoint read(const std::filesystem::path& path);
  static Checkpoint from_value(const Value& value, const std::string& where);
  /// In the reference's order of keys.
  Value to_value() const;
  void write(const std::filesystem::path& path) const;
};

/// The weights of a file and what came with them.
struct Weights {
  StateDict tensors;
  std::string source;       // the key that held them: "ema_net", "net", …; empty: the file itself
  Value processing_params;  // None when the file has none
};

/// Weights of a training checkpoint (`ema_net` before `net`, unless `prefer_ema` is off), of a bare
/// state_dict, of the common layouts of other trainers ("state_dict", "model", …), or of a
/// .safetensors file. Prefixes that wrappers add to every name ("module.", "_orig_mod.") are
/// removed. Throws core::InputError; an object of a Python class among the weights is named.
Weights read_weights(const std::filesystem::path& path, bool prefer_ema = true);

/// A dict of tensors by name, e.g. "net". Errors name the key and the class found.
StateDict to_state_dict(const Value& value, const std::string& where);
Value from_state_dict(const StateDict& state);
void strip_wrapper_prefixes(StateDict& state);

/// Objects as the reference implementation pickles its processings become `{Class: {attribute:
/// value}}`, and small arrays become lists: the form of a recipe.
Value plain_objects(const Value& value);

}  // namespace sgtrain::tensor
