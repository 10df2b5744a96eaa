// torch.optim's schedulers as `lr_mode: {StepLR: {step_size: 30, phase: TRAIN_EPOCH_END}}`. Each is
// its closed formula over the number of scheduler steps so far, so there is nothing to save; a
// warm-up by epochs holds them back until it is over.
#pragma once

#include <cstdint>
#include <optional>

#include "optim/schedule.h"

namespace sgtrain::optim {

/// When the scheduler steps.
enum class TorchPhase {
  kEpochStart,
  kBatch,          // every batch
  kOptimizerStep,  // every optimizer step
  kEpochEnd,       // every epoch (also for phases of validation)
};

/// `phase`: SuperGradients' name of it, "TRAIN_EPOCH_END" and so on.
TorchPhase read_phase(core::Node& node);

class TorchSchedule : public LrSchedule {
 public:
  TorchSchedule(TorchPhase phase, const RunLength& length) : phase_(phase), length_(length) {}
  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) final;

 protected:
  /// The rate after `steps` scheduler steps (0: before the first).
  virtual double rate(std::int64_t steps, const ParamGroup& group) const = 0;

 private:
  std::optional<std::int64_t> steps_at(const Position& position) const;
  TorchPhase phase_;
  RunLength length_;
};

}  // namespace sgtrain::optim
