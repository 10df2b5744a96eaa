#include <cmath>
#include <numbers>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// Half cosines from the initial rate to eta_min, the first T_0 steps long, each next one T_mult
/// times as long (Loshchilov & Hutter 2017).
class CosineAnnealingWarmRestarts final : public TorchSchedule {
 public:
  struct Params {
    int t_0 = 1, t_mult = 1;
    double eta_min = 0.0;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.t_0 = node.get<int>("T_0").min(1);
      p.t_mult = node.get_or("T_mult", p.t_mult).min(1);
      p.eta_min = node.get_or("eta_min", p.eta_min).min(0.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  CosineAnnealingWarmRestarts(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    std::int64_t length = params_.t_0;
    std::int64_t done = steps;
    if (params_.t_mult == 1) done %= length;
    while (done >= length) {
      done -= length;
      length *= params_.t_mult;
    }
    const double angle = std::numbers::pi * static_cast<double>(done) / static_cast<double>(length);
    return params_.eta_min + (group.initial_lr - params_.eta_min) * (1.0 + std::cos(angle)) / 2.0;
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, CosineAnnealingWarmRestarts, "CosineAnnealingWarmRestarts");
}  // namespace sgtrain::optim
