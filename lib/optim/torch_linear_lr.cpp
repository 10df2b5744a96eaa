#include <algorithm>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// From initial * start_factor to initial * end_factor, evenly over total_iters steps.
class LinearLr final : public TorchSchedule {
 public:
  struct Params {
    double start_factor = 1.0 / 3.0, end_factor = 1.0;
    int total_iters = 5;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      p.start_factor = node.get_or("start_factor", p.start_factor).in(0.0, 1.0);
      p.end_factor = node.get_or("end_factor", p.end_factor).in(0.0, 1.0);
      p.total_iters = node.get_or("total_iters", p.total_iters).min(1);
      p.phase = read_phase(node);
      return p;
    }
  };

  LinearLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    const double done = static_cast<double>(std::min<std::int64_t>(steps, params_.total_iters));
    return group.initial_lr * (params_.start_factor + (params_.end_factor - params_.start_factor) *
                                                          done / params_.total_iters);
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, LinearLr, "LinearLR");
}  // namespace sgtrain::optim
