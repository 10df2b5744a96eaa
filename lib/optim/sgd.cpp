#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

/// Stochastic gradient descent with momentum, as torch.optim.SGD (Sutskever et al. 2013, with the
/// learning rate outside the momentum buffer). Weight decay is an L2 term of the gradient.
struct SgdParams {
  double momentum = 0.9;  // the reference implementation's defaults, not torch's
  double weight_decay = 1e-4;
  double dampening = 0.0;
  bool nesterov = false;

  static SgdParams from(core::Node& node) {
    SgdParams p;
    p.momentum = node.get_or("momentum", p.momentum).min(0.0);
    p.weight_decay = node.get_or("weight_decay", p.weight_decay).min(0.0);
    p.dampening = node.get_or("dampening", p.dampening);
    p.nesterov = node.get_or("nesterov", p.nesterov);
    if (p.nesterov && (p.momentum <= 0.0 || p.dampening != 0.0)) {
      node.problem("nesterov", "needs a momentum above 0 and no dampening");
    }
    accept_torch_switches(node);
    return p;
  }
  template <class F>
  void visit(F&& f) {
    f("momentum", momentum);
    f("dampening", dampening);
    f("nesterov", nesterov);
  }
};

class Sgd final : public MultiTensor<SgdParams> {
 public:
  using Params = SgdParams;
  using MultiTensor::MultiTensor;

 protected:
  std::vector<Slot> slots() const override {
    return params_.momentum != 0.0 ? std::vector<Slot>{{"momentum_buffer"}} : std::vector<Slot>{};
  }
  StepCount step_count() const override { return StepCount::kNone; }

  void update(Batch& batch) override {
    const Params& p = of(batch);
    const std::vector<at::Tensor> none;
    at::_fused_sgd_(batch.params, batch.grads, batch.slots.empty() ? none : batch.slots[0],
                    batch.weight_decay, batch.slots.empty() ? 0.0 : p.momentum, batch.lr,
                    p.dampening, p.nesterov, /*maximize=*/false, batch.first);
  }

  // torch's groups have these keys; without them a state_dict of ours would not be complete there.
  Options options(std::size_t group) const override {
    Options out = MultiTensor::options(group);
    for (const char* key : {"maximize", "differentiable"}) out.emplace_back(key, false);
    for (const char* key : {"foreach", "fused"}) out.emplace_back(key, tensor::Value());
    return out;
  }
};

}  // namespace

SGTRAIN_REGISTER(Optimizer, Sgd, "SGD");
}  // namespace sgtrain::optim
