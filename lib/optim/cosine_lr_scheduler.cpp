#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// Half a cosine (Loshchilov & Hutter 2017) from the initial rate to a share of it. Acts after each
/// step, between warm-up and cool-down.
///
/// Two traits of the reference implementation: lr_warmup_steps counts as given, although the
/// warm-up itself is cut at one epoch; and when it is set, only it decides where the cosine
/// begins, and the cool-down no longer stops it.
class CosineLrScheduler final : public LrSchedule {
 public:
  struct Params {
    double cosine_final_lr_ratio = 0.01;  // final rate as a share of the initial one
    static Params from(core::Node& node) {
      return {.cosine_final_lr_ratio = node.get_or("cosine_final_lr_ratio", 0.01).min(0.0)};
    }
  };

  CosineLrScheduler(const Params& params, const RunLength& length)
      : ratio_(params.cosine_final_lr_ratio), length_(length) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    if (!position.stepped || !active(position)) return std::nullopt;
    const double batches = length_.batches_per_epoch;
    const double epochs = length_.max_epochs - length_.warmup_epochs - length_.cooldown_epochs;
    const double done = std::max(0.0, batches * (position.epoch - length_.warmup_epochs) +
                                          position.batch - length_.warmup_steps);
    const double all = batches * epochs - length_.warmup_steps;
    const double lr =
        0.5 * group.initial_lr * (1.0 + std::cos(done / (all + 1) * std::numbers::pi));
    return lr * (1 - ratio_) + group.initial_lr * ratio_;
  }

 private:
  bool active(const Position& position) const {
    if (length_.warmup_steps > 0) {
      return length_.batches_per_epoch * position.epoch + position.batch >= length_.warmup_steps;
    }
    return position.epoch >= length_.warmup_epochs &&
           position.epoch < length_.max_epochs - length_.cooldown_epochs;
  }

  double ratio_;
  RunLength length_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, CosineLrScheduler, "CosineLRScheduler", "cosine");
}  // namespace sgtrain::optim
