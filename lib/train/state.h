// Everything of a run that is not a tensor and must survive an interruption. Together with the
// weights, the optimizer, the moving average, the random generators and what callbacks and metrics
// hold (train/checkpointing.h) it makes a resumed run equal to one that was never interrupted.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::train {

using NamedValues = std::vector<std::pair<std::string, double>>;

/// The value of that very name.
inline std::optional<double> value_of(const NamedValues& values, std::string_view name) {
  for (const auto& [own, value] : values) {
    if (own == name) return value;
  }
  return std::nullopt;
}

/// What an epoch does next. Checkpoints inside an epoch stand at its beginning.
enum class Stage { kTrain, kValidate, kTest };

/// An epoch (0-based) and its value of metric_to_watch.
struct ScoredEpoch {
  int epoch = 0;
  double value = 0.0;
};

struct TrainState {
  int epoch = 0;                 // 0-based epoch that runs or comes next
  int batch = 0;                 // next batch in it
  Stage stage = Stage::kTrain;   // of it
  std::int64_t global_step = 0;  // batches seen in the whole run
  std::int64_t optimizer_steps = 0;
  int max_epochs = 0;  // that schedules and moving average were made for

  bool has_best = false;
  double best_metric = std::numeric_limits<double>::quiet_NaN();
  int best_epoch = -1;
  std::optional<std::string> stop_reason;  // a callback ended the run

  // The epoch that runs: sums of the loss components over its images so far, and its values.
  std::vector<double> loss_sums;
  double loss_weight = 0.0;
  std::int64_t images = 0;                              // of this process
  NamedValues train_values, valid_values, test_values;  // of the last epoch that had them
  int valid_epoch = -1, test_epoch = -1;                // which one that was
  int non_finite_in_a_row = 0;

  // Files beside ckpt_latest: epochs in average_model.pth, by slot; those that keep_last_n and
  // keep_best_k hold; and names of files that this checkpoint made superfluous.
  std::vector<ScoredEpoch> averaged, best_epochs;
  std::vector<int> kept_epochs;
  std::vector<std::string> retired;
};

}  // namespace sgtrain::train
