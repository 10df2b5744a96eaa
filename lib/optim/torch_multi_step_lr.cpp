#include <algorithm>
#include <cmath>
#include <vector>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// initial * gamma^(number of milestones reached).
class MultiStepLr final : public TorchSchedule {
 public:
  struct Params {
    std::vector<double> milestones;  // scheduler steps
    double gamma = 0.1;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.milestones = node.get<std::vector<double>>("milestones").min(0.0);
      p.gamma = node.get_or("gamma", p.gamma).min(0.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  MultiStepLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    const auto reached =
        std::count_if(params_.milestones.begin(), params_.milestones.end(),
                      [&](double milestone) { return milestone <= static_cast<double>(steps); });
    return group.initial_lr * std::pow(params_.gamma, static_cast<double>(reached));
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, MultiStepLr, "MultiStepLR");
}  // namespace sgtrain::optim
