#include <algorithm>
#include <vector>

#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// initial * factor of the step. Python gives a function; here its values are listed, and the last
/// one stays.
class LambdaLr final : public TorchSchedule {
 public:
  struct Params {
    std::vector<double> factors;
    TorchPhase phase = TorchPhase::kEpochEnd;
    static Params from(core::Node& node) {
      Params p;
      if (!node.describing() && node.has("lr_lambda") && !node.child("lr_lambda").is_list()) {
        node.child("lr_lambda").read_all();
        node.problem("lr_lambda",
                     "Python functions cannot run here: list the factors of the steps, as in "
                     "lr_lambda: [1.0, 0.5, 0.1]");
      } else {
        p.factors = node.get<std::vector<double>>("lr_lambda").min(0.0).value();
        if (!node.describing() && node.has("lr_lambda") && p.factors.empty())
          node.problem("lr_lambda", "needs at least one factor");
      }
      p.phase = read_phase(node);
      return p;
    }
  };

  LambdaLr(const Params& params, const RunLength& length)
      : TorchSchedule(params.phase, length), params_(params) {}

 protected:
  double rate(std::int64_t steps, const ParamGroup& group) const override {
    const auto last = static_cast<std::int64_t>(params_.factors.size()) - 1;
    return group.initial_lr * params_.factors[static_cast<std::size_t>(std::min(steps, last))];
  }

 private:
  Params params_;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, LambdaLr, "LambdaLR");
}  // namespace sgtrain::optim
