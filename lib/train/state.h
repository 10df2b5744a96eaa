// Everything of a run that is not a tensor and must survive an interruption.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sgtrain::train {

using NamedValues = std::vector<std::pair<std::string, double>>;

struct TrainState {
  int epoch = 0;                 // 0-based epoch that runs or comes next
  int batch = 0;                 // next batch in it
  std::int64_t global_step = 0;  // batches seen in the whole run
  std::int64_t optimizer_steps = 0;
  std::int64_t ema_step = 0;

  bool has_best = false;
  double best_metric = std::numeric_limits<double>::quiet_NaN();
  int best_epoch = -1;

  NamedValues train_values, valid_values;  // of the last finished epoch
  int non_finite_in_a_row = 0;
};

}  // namespace sgtrain::train
