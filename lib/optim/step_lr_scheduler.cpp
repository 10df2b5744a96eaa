#include <algorithm>
#include <cmath>
#include <vector>

#include "optim/schedule.h"

namespace sgtrain::optim {
namespace {

/// The rate is multiplied by a factor at milestones. Acts at the end of an epoch, so a milestone n
/// (0-based) takes effect at epoch n + 1.
class StepLrScheduler final : public LrSchedule {
 public:
  struct Params {
    std::vector<double> lr_updates;             // epochs
    std::optional<double> step_lr_update_freq;  // instead of milestones: one each so many epochs
    double lr_decay_factor = 0.1;
    static Params from(core::Node& node) {
      Params p;
      p.lr_updates = node.get_or<std::vector<double>>("lr_updates", {}).min(0.0);
      if (node.has("step_lr_update_freq")) {
        p.step_lr_update_freq = node.get<double>("step_lr_update_freq").above(0.0);
      }
      p.lr_decay_factor = node.get<double>("lr_decay_factor").in(0.0, 1.0);
      if (p.step_lr_update_freq && !p.lr_updates.empty()) {
        node.problem("step_lr_update_freq", "give either this or lr_updates, not both");
      }
      if (!p.step_lr_update_freq && p.lr_updates.empty() && !node.describing()) {
        node.problem("lr_updates", "StepLRScheduler needs lr_updates or step_lr_update_freq");
      }
      return p;
    }
  };

  StepLrScheduler(const Params& params, const RunLength& length)
      : updates_(params.lr_updates), factor_(params.lr_decay_factor), length_(length) {
    if (!params.step_lr_update_freq) return;
    const int last = length.max_epochs - length.cooldown_epochs;
    for (int x = 1; x < last; ++x) {
      const double epoch = std::ceil(*params.step_lr_update_freq * x);
      if (epoch >= length.warmup_epochs && epoch < last) updates_.push_back(epoch);
    }
  }

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    if (!position.epoch_end || position.epoch < length_.warmup_epochs) return std::nullopt;
    const auto passed = std::count_if(updates_.begin(), updates_.end(),
                                      [&](double epoch) { return epoch <= position.epoch; });
    return group.initial_lr * std::pow(factor_, static_cast<double>(passed));
  }

 private:
  std::vector<double> updates_;
  double factor_;
  RunLength length_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, StepLrScheduler, "StepLRScheduler", "step");
}  // namespace sgtrain::optim
