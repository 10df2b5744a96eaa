#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// initial * factor for the first total_iters steps, then initial.
class ConstantLr final : public TorchSchedule {
 public:
  struct Params {
    double factor = 1.0 / 3.0;
    int total_iters = 5;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.factor = node.get_or("factor", p.factor).in(0.0, 1.0);
      p.total_iters = node.get_or("total_iters", p.total_iters).min(0);
      p.phase = read_phase(node);
      return p;
    }
  };

  ConstantLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    return steps < params_.total_iters ? group.initial_lr * params_.factor : group.initial_lr;
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, ConstantLr, "ConstantLR");
}  // namespace sgtrain::optim
