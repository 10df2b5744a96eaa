#include <cmath>
#include <string>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// Cyclical rates between base_lr and max_lr (Smith 2017), the momentum in the opposite direction.
class CyclicLr final : public TorchSchedule {
 public:
  struct Params {
    double base_lr = 0.0, max_lr = 0.0;
    int step_size_up = 2000, step_size_down = 2000;
    std::string mode = "triangular";
    double gamma = 1.0;  // exp_range
    bool cycle_momentum = true;
    double base_momentum = 0.8, max_momentum = 0.9;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.base_lr = node.get<double>("base_lr").min(0.0);
      p.max_lr = node.get<double>("max_lr").min(0.0);
      p.step_size_up = node.get_or("step_size_up", p.step_size_up).min(1);
      p.step_size_down = node.get_or("step_size_down", p.step_size_up).min(1);
      p.mode = node.get_or("mode", "triangular").one_of({"triangular", "triangular2", "exp_range"});
      p.gamma = node.get_or("gamma", p.gamma).min(0.0);
      p.cycle_momentum = node.get_or("cycle_momentum", p.cycle_momentum);
      p.base_momentum = node.get_or("base_momentum", p.base_momentum).in(0.0, 1.0);
      p.max_momentum = node.get_or("max_momentum", p.max_momentum).in(0.0, 1.0);
      p.phase = read_phase(node);
      return p;
    }
  };

  CyclicLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

  std::optional<double> momentum() const override {
    if (!params_.cycle_momentum) return std::nullopt;
    return params_.max_momentum - (params_.max_momentum - params_.base_momentum) * height(steps());
  }

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    static_cast<void>(group);
    return params_.base_lr + (params_.max_lr - params_.base_lr) * height(steps);
  }

 private:
  /// Where in its cycle the run is, from 0 to 1, scaled by the mode.
  double height(std::int64_t steps) const {
    const double up = params_.step_size_up;
    const double period = up + params_.step_size_down;
    const double share_up = up / period;
    const double cycle = std::floor(1.0 + static_cast<double>(steps) / period);
    const double x = 1.0 + static_cast<double>(steps) / period - cycle;
    const double height = x <= share_up ? x / share_up : (x - 1.0) / (share_up - 1.0);
    if (params_.mode == "triangular2") return height / std::pow(2.0, cycle - 1.0);
    if (params_.mode == "exp_range")
      return height * std::pow(params_.gamma, static_cast<double>(steps));
    return height;
  }

  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, CyclicLr, "CyclicLR");
}  // namespace sgtrain::optim
