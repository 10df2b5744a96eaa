#include <algorithm>
#include <cstdint>

#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// A rate per batch, evenly from the first to the initial one, over lr_warmup_steps batches but no
/// more than one epoch.
class LinearBatchLrWarmup final : public LrWarmup {
 public:
  struct Params {
    WarmupStart start;  // default: initial_lr / (number of batches + 1)
    static Params from(core::Node& node) { return {.start = WarmupStart::from(node)}; }
  };

  LinearBatchLrWarmup(const Params& params, const RunLength& length)
      : start_(params.start),
        batches_per_epoch_(length.batches_per_epoch),
        steps_(std::min(length.warmup_steps, length.batches_per_epoch)) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    const std::int64_t step =
        position.batch + static_cast<std::int64_t>(position.epoch) * batches_per_epoch_;
    if (!position.batch_start() || step >= steps_) return std::nullopt;
    const double start = start_.of(group).value_or(group.initial_lr / (steps_ + 1));
    if (steps_ > 1 && step == steps_ - 1) return group.initial_lr;
    const double stride = steps_ > 1 ? (group.initial_lr - start) / (steps_ - 1) : 0.0;
    return start + static_cast<double>(step) * stride;
  }

 private:
  WarmupStart start_;
  int batches_per_epoch_, steps_;
};

}  // namespace

SGTRAIN_REGISTER(LrWarmup, LinearBatchLrWarmup, "LinearBatchLRWarmup", "linear_batch_step");
}  // namespace sgtrain::optim
