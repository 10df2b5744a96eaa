// Learning-rate schedules and warm-ups: pure functions of the position in the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"

namespace sgtrain::optim {

/// Length of the run, known before it starts.
struct RunLength {
  int max_epochs = 1;
  int batches_per_epoch = 1;
  int batch_accumulate = 1;
  int warmup_epochs = 0;    // lr_warmup_epochs
  int warmup_steps = 0;     // lr_warmup_steps as given
  int cooldown_epochs = 0;  // lr_cooldown_epochs
};

/// Where the run is. `epoch` and `batch` are 0-based.
struct Position {
  int epoch = 0;
  int batch = 0;
  bool epoch_start = false;  // before the first batch
  bool epoch_end = false;    // after the last batch
  bool stepped = false;      // the optimizer has just stepped
};

/// A schedule looks at each phase and may give a new learning rate. SuperGradients' phases: epoch
/// start, before a batch, after an optimizer step, epoch end.
class LrSchedule {
 public:
  using Registry = core::Registry<LrSchedule, RunLength>;
  static Registry& registry();

  virtual ~LrSchedule() = default;
  /// New learning rate of a group whose initial one is `initial_lr`; nullopt: leave it.
  virtual std::optional<double> at(const Position& position, double initial_lr) = 0;
};

/// Warm-ups have the same interface and a registry of their own (`warmup_mode`).
class LrWarmup : public LrSchedule {
 public:
  using Registry = core::Registry<LrWarmup, RunLength>;
  static Registry& registry();
};

}  // namespace sgtrain::optim
