#include <algorithm>
#include <cmath>

#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// lr = initial * (1 - x)^0.9, x = share of the epochs between warm-up and cool-down that is done.
/// Acts after each step.
class PolyLrScheduler final : public LrSchedule {
 public:
  explicit PolyLrScheduler(const RunLength& length) : length_(length) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    const bool active = position.stepped && position.epoch >= length_.warmup_epochs &&
                        position.epoch < length_.max_epochs - length_.cooldown_epochs;
    if (!active) return std::nullopt;
    constexpr double kPower = 0.9;
    const double batches = length_.batches_per_epoch;
    const double epochs = length_.max_epochs - length_.warmup_epochs - length_.cooldown_epochs;
    const double done = (batches * (position.epoch - length_.warmup_epochs) + position.batch) /
                        length_.batch_accumulate;
    const double all = batches * epochs / length_.batch_accumulate;
    return group.initial_lr * std::pow(std::max(0.0, 1.0 - done / all), kPower);
  }

 private:
  RunLength length_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, PolyLrScheduler, "PolyLRScheduler", "poly");
}  // namespace sgtrain::optim
