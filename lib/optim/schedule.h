// Learning-rate schedules and warm-ups. Those of SuperGradients are pure functions of the position
// in the run, so that a resumed run continues exactly and nothing of them needs to be saved;
// torch's count their steps and are saved.
//
// The trainer asks warm-up and schedule, in this order, at these moments (SuperGradients' phases)
// and sets what they answer:
//
//   per epoch e (0-based):  epoch_start                       [TRAIN_EPOCH_START]
//     per batch i:          no flag: before the forward       [on_train_batch_start]
//                           loss_end: before the backward     [TRAIN_BATCH_END]
//                           stepped: after the optimizer's step and the EMA update
//                                                             [TRAIN_BATCH_STEP]
//                           epoch_end, batch = last           [TRAIN_EPOCH_END], before validation
//                           validation_end, test_end, best_epoch     [VALIDATION_EPOCH_END] …
//
// Two consequences that surprise: a schedule that acts on `stepped` gives the rate of the *next*
// step, so the first two steps of a run share one; a StepLR milestone n takes effect at epoch n
// + 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "optim/optimizer.h"

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

/// Where the run is. `epoch` and `batch` are 0-based. At most one flag is set.
struct Position {
  int epoch = 0;
  int batch = 0;
  bool epoch_start = false;     // before the first batch
  bool epoch_end = false;       // after the last batch
  bool stepped = false;         // the optimizer has just stepped
  bool loss_end = false;        // between forward and backward
  bool validation_end = false;  // after the validation of this epoch
  bool best_epoch = false;      // it was the best one
  bool test_end = false;
  /// Values by logged name, for schedules that watch one. Null: none.
  const std::vector<std::pair<std::string, double>>* values = nullptr;

  bool batch_start() const {
    return !epoch_start && !epoch_end && !stepped && !loss_end && !validation_end && !best_epoch &&
           !test_end;
  }
};

class LrSchedule {
 public:
  using Registry = core::Registry<LrSchedule, RunLength>;
  static Registry& registry();

  virtual ~LrSchedule() = default;
  /// Told of every position once, before at() is asked for the groups: schedules that count.
  virtual void step(const Position& position) { static_cast<void>(position); }
  /// New learning rate of a group (its name and initial_lr are read); nullopt: leave it.
  virtual std::optional<double> at(const Position& position, const ParamGroup& group) = 0;
  /// Momentum of the steps to come, where the schedule has a say in it.
  virtual std::optional<double> momentum() const { return std::nullopt; }
  /// Logged name of the value that the schedule reads from Position::values; empty: none.
  virtual std::string watches() const { return {}; }
  /// What a resumed run needs, in the layout of torch's schedulers; None: nothing.
  virtual tensor::Value save() const { return {}; }
  virtual void load(const tensor::Value& state) { static_cast<void>(state); }
  /// Of a group "default".
  std::optional<double> at(const Position& position, double initial_lr) {
    ParamGroup group;
    group.lr = group.initial_lr = initial_lr;
    return at(position, group);
  }
};

/// Warm-ups have the same interface and a registry of their own (`warmup_mode`).
class LrWarmup : public LrSchedule {
 public:
  using Registry = core::Registry<LrWarmup, RunLength>;
  static Registry& registry();
};

/// `warmup_initial_lr`: one rate for all groups, or one per group name.
struct WarmupStart {
  std::map<std::string, double> by_group;
  std::optional<double> all;

  static WarmupStart from(core::Node& node);
  /// The rate to start from; nullopt when the recipe leaves it to the warm-up.
  std::optional<double> of(const ParamGroup& group) const;
};

}  // namespace sgtrain::optim
