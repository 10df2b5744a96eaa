#include <cmath>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// initial * gamma^floor(steps / step_size).
class StepLr final : public TorchSchedule {
 public:
  struct Params {
    int step_size = 1;
    double gamma = 0.1;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.step_size = node.get<int>("step_size").min(1);
      p.gamma = node.get_or("gamma", p.gamma).min(0.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  StepLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    return group.initial_lr *
           std::pow(params_.gamma, static_cast<double>(steps / params_.step_size));
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, StepLr, "StepLR");
}  // namespace sgtrain::optim
