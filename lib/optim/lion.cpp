#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

struct LionParams {
  Betas betas = {0.9, 0.99};  // of the update, of the running average
  double weight_decay = 0.0;

  static LionParams from(core::Node& node) {
    LionParams p;
    p.betas = read_betas(node, p.betas);
    p.weight_decay = node.get_or("weight_decay", p.weight_decay).min(0.0);
    return p;
  }
  template <class F>
  void visit(F&& f) {
    f("betas", betas);
  }
};

/// Lion, Chen et al. 2023 (symbolic discovery of optimization algorithms): the sign of the
/// gradient mixed with its running average; weight decay apart from the gradient.
class Lion final : public MultiTensor<LionParams> {
 public:
  using Params = LionParams;
  using MultiTensor::MultiTensor;

 protected:
  std::vector<Slot> slots() const override { return {{"exp_avg"}}; }
  StepCount step_count() const override { return StepCount::kNone; }

  void update(Batch& batch) override {
    const Params& p = of(batch);
    if (batch.weight_decay != 0.0) {
      at::_foreach_mul_(batch.params, 1.0 - batch.lr * batch.weight_decay);
    }
    std::vector<at::Tensor>& average = batch.slots[0];
    std::vector<at::Tensor> direction = at::_foreach_mul(average, p.betas[0]);
    at::_foreach_add_(direction, batch.grads, 1.0 - p.betas[0]);
    at::_foreach_sign_(direction);
    at::_foreach_add_(batch.params, direction, -batch.lr);
    at::_foreach_mul_(average, p.betas[1]);
    at::_foreach_add_(average, batch.grads, 1.0 - p.betas[1]);
  }
};

}  // namespace

SGTRAIN_REGISTER(Optimizer, Lion, "Lion");
}  // namespace sgtrain::optim
