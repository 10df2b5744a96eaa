#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// One stair per epoch from the first rate to the initial one: epoch e of W gets
/// start + e * (initial - start) / W, and epoch W the initial rate itself.
class LinearEpochLrWarmup final : public LrWarmup {
 public:
  struct Params {
    WarmupStart start;  // default: initial_lr / (lr_warmup_epochs + 1)
    static Params from(core::Node& node) { return {.start = WarmupStart::from(node)}; }
  };

  LinearEpochLrWarmup(const Params& params, const RunLength& length)
      : start_(params.start), epochs_(length.warmup_epochs) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    if (!position.epoch_start || epochs_ == 0 || position.epoch > epochs_) return std::nullopt;
    const double start = start_.of(group).value_or(group.initial_lr / (epochs_ + 1));
    return start + position.epoch * ((group.initial_lr - start) / epochs_);
  }

 private:
  WarmupStart start_;
  int epochs_;
};

}  // namespace

SGTRAIN_REGISTER(LrWarmup, LinearEpochLrWarmup, "LinearEpochLRWarmup", "linear_epoch_step");
}  // namespace sgtrain::optim
