#include <cmath>
#include <numbers>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// A cosine between the initial rate and eta_min with half a period of T_max steps.
class CosineAnnealingLr final : public TorchSchedule {
 public:
  struct Params {
    int t_max = 1;
    double eta_min = 0.0;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.t_max = node.get<int>("T_max").min(1);
      p.eta_min = node.get_or("eta_min", p.eta_min).min(0.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  CosineAnnealingLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    const double angle = std::numbers::pi * static_cast<double>(steps) / params_.t_max;
    return params_.eta_min + (group.initial_lr - params_.eta_min) * (1.0 + std::cos(angle)) / 2.0;
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, CosineAnnealingLr, "CosineAnnealingLR");
}  // namespace sgtrain::optim
