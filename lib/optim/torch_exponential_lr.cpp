#include <cmath>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// initial * gamma^steps.
class ExponentialLr final : public TorchSchedule {
 public:
  struct Params {
    double gamma = 0.9;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.gamma = node.get<double>("gamma").min(0.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  ExponentialLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    return group.initial_lr * std::pow(params_.gamma, static_cast<double>(steps));
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, ExponentialLr, "ExponentialLR");
}  // namespace sgtrain::optim
