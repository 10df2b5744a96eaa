// torch.optim's schedulers as `lr_mode: {StepLR: {step_size: 30, phase: TRAIN_EPOCH_END}}`. Each
// counts its steps at its phase and gives its closed formula over them, as torch's numbers are; the
// count is saved. A warm-up by epochs holds them back until it is over.
#pragma once

#include <cstdint>
#include <optional>

#include "optim/schedule.h"

namespace sgtrain::optim {

/// When the scheduler steps.
enum class TorchPhase {
  kEpochStart,
  kBatch,          // every batch, between forward and backward
  kOptimizerStep,  // every optimizer step
  kEpochEnd,
  kValidationEnd,  // of epochs that are validated
  kBestEpoch,      // of epochs that are the best so far
  kTestEnd,
};

/// `phase`: SuperGradients' name of it, "TRAIN_EPOCH_END" and so on.
TorchPhase read_phase(core::Node& node, const char* fallback = "TRAIN_EPOCH_END");

/// Counts steps; what follows from them is up to the derived class.
class CountingSchedule : public LrSchedule {
 public:
  CountingSchedule(TorchPhase phase, const RunLength& length)
      : phase_(phase), warmup_epochs_(length.warmup_epochs) {}
  void step(const Position& position) final;
  tensor::Value save() const override;
  void load(const tensor::Value& state) override;

 protected:
  /// After step `steps` (from 1).
  virtual void on_step(const Position& position) { static_cast<void>(position); }
  /// The position that step() was told last is one of the scheduler's steps.
  bool steps_now() const { return steps_now_; }
  /// It is the first of the run: a scheduler sets its first rate when it is made, unless a warm-up
  /// does.
  bool starts_now() const { return starts_now_; }
  std::int64_t steps() const { return steps_; }

 private:
  bool is_phase(const Position& position) const;

  TorchPhase phase_;
  int warmup_epochs_;
  std::int64_t steps_ = 0;
  bool steps_now_ = false, starts_now_ = false;
};

class TorchSchedule : public CountingSchedule {
 public:
  using CountingSchedule::CountingSchedule;
  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) final;

 protected:
  /// The rate after `steps` scheduler steps (0: before the first).
  virtual double rate(std::int64_t steps, const ParamGroup& group) const = 0;
};

}  // namespace sgtrain::optim
