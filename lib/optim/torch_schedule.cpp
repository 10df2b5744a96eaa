#include "optim/torch_schedule.h"

#include <string>

#include "core/text.h"

namespace sgtrain::optim {

TorchPhase read_phase(core::Node& node) {
  const std::string name =
      node.get_or("phase", "TRAIN_EPOCH_END")
          .one_of({"TRAIN_EPOCH_START", "TRAIN_BATCH_END", "TRAIN_BATCH_STEP", "TRAIN_EPOCH_END",
                   "VALIDATION_EPOCH_END", "VALIDATION_END_BEST_EPOCH", "TEST_END"});
  if (name == "TRAIN_EPOCH_START") return TorchPhase::kEpochStart;
  if (name == "TRAIN_BATCH_END") return TorchPhase::kBatch;
  if (name == "TRAIN_BATCH_STEP") return TorchPhase::kOptimizerStep;
  return TorchPhase::kEpochEnd;
}

std::optional<std::int64_t> TorchSchedule::steps_at(const Position& position) const {
  const std::int64_t epochs = position.epoch - length_.warmup_epochs;
  if (epochs < 0) return std::nullopt;
  const std::int64_t batches = length_.batches_per_epoch;
  switch (phase_) {
    case TorchPhase::kEpochStart:
      if (position.epoch_start) return epochs + 1;
      break;
    case TorchPhase::kEpochEnd:
      if (position.epoch_end) return epochs + 1;
      break;
    case TorchPhase::kBatch:
      // The reference steps between forward and backward, so the batch's own step has the new rate.
      if (position.batch_start()) return epochs * batches + position.batch + 1;
      break;
    case TorchPhase::kOptimizerStep:
      if (position.stepped) {
        const std::int64_t before = length_.warmup_epochs * batches / length_.batch_accumulate;
        const std::int64_t all = position.epoch * batches + position.batch + 1;
        return all / length_.batch_accumulate - before;
      }
      break;
  }
  // A scheduler sets its first rate when it is made, unless a warm-up does.
  if (position.epoch == 0 && position.epoch_start && length_.warmup_epochs == 0) return 0;
  return std::nullopt;
}

std::optional<double> TorchSchedule::at(const Position& position, const ParamGroup& group) {
  const auto steps = steps_at(position);
  if (!steps) return std::nullopt;
  return rate(*steps, group);
}

}  // namespace sgtrain::optim
