#include <cmath>

#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// lr = initial * factor^x, x = epochs since the warm-up, in fractions. Acts after each step, up to
/// the cool-down.
class ExponentialLrScheduler final : public LrSchedule {
 public:
  struct Params {
    double lr_decay_factor = 0.9;  // per epoch
    static Params from(core::Node& node) {
      return {.lr_decay_factor = node.get<double>("lr_decay_factor").in(0.0, 1.0)};
    }
  };

  ExponentialLrScheduler(const Params& params, const RunLength& length)
      : factor_(params.lr_decay_factor), length_(length) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    const bool active = position.stepped && position.epoch >= length_.warmup_epochs &&
                        position.epoch < length_.max_epochs - length_.cooldown_epochs;
    if (!active) return std::nullopt;
    const double batches = length_.batches_per_epoch;
    const double done = batches * (position.epoch - length_.warmup_epochs) + position.batch;
    return group.initial_lr * std::pow(factor_, done / batches);
  }

 private:
  double factor_;
  RunLength length_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, ExponentialLrScheduler, "ExponentialLRScheduler", "exp");
}  // namespace sgtrain::optim
