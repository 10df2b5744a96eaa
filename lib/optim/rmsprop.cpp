#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

struct RmsPropParams {
  double alpha = 0.99;  // decay of the squared average
  double eps = 1e-8;    // added to the root
  double momentum = 0.9;
  double weight_decay = 1e-4;  // momentum and this: the reference implementation's defaults
  bool centered = false;       // divide by the standard deviation instead of the root mean square

  static RmsPropParams from(core::Node& node) {
    RmsPropParams p;
    p.alpha = node.get_or("alpha", p.alpha).in(0.0, 1.0);
    p.eps = node.get_or("eps", p.eps).min(0.0);
    p.momentum = node.get_or("momentum", p.momentum).min(0.0);
    p.weight_decay = node.get_or("weight_decay", p.weight_decay).min(0.0);
    p.centered = node.get_or("centered", p.centered);
    accept_torch_switches(node);
    return p;
  }
  template <class F>
  void visit(F&& f) {
    f("alpha", alpha);
    f("eps", eps);
    f("momentum", momentum);
    f("centered", centered);
  }
};

/// RMSprop (Tieleman & Hinton 2012; centered: Graves 2013), as torch.optim.RMSprop.
class RmsProp final : public MultiTensor<RmsPropParams> {
 public:
  using Params = RmsPropParams;
  using MultiTensor::MultiTensor;

 protected:
  std::vector<Slot> slots() const override {
    std::vector<Slot> out = {{"square_avg"}};
    if (params_.momentum > 0.0) out.push_back({"momentum_buffer"});
    if (params_.centered) out.push_back({"grad_avg"});
    return out;
  }
  StepCount step_count() const override { return StepCount::kTensor; }

  void update(Batch& batch) override {
    const Params& p = of(batch);
    std::vector<at::Tensor> grads = batch.grads;
    if (batch.weight_decay != 0.0) {
      grads = at::_foreach_add(grads, batch.params, batch.weight_decay);
    }
    std::vector<at::Tensor>& square = batch.slots[0];
    at::_foreach_mul_(square, p.alpha);
    at::_foreach_addcmul_(square, grads, grads, 1.0 - p.alpha);
    std::vector<at::Tensor> root;
    if (params_.centered) {
      std::vector<at::Tensor>& mean = batch.slots.back();
      at::_foreach_lerp_(mean, grads, 1.0 - p.alpha);
      root = at::_foreach_addcmul(square, mean, mean, -1.0);
      at::_foreach_sqrt_(root);
    } else {
      root = at::_foreach_sqrt(square);
    }
    at::_foreach_add_(root, p.eps);
    if (params_.momentum > 0.0) {
      std::vector<at::Tensor>& buffer = batch.slots[1];
      at::_foreach_mul_(buffer, p.momentum);
      at::_foreach_addcdiv_(buffer, grads, root, 1.0);
      at::_foreach_add_(batch.params, buffer, -batch.lr);
    } else {
      at::_foreach_addcdiv_(batch.params, grads, root, -batch.lr);
    }
  }

  Options options(std::size_t group) const override {
    Options out = MultiTensor::options(group);
    for (const char* key : {"capturable", "maximize", "differentiable"}) {
      out.emplace_back(key, false);
    }
    out.emplace_back("foreach", tensor::Value());
    return out;
  }
};

}  // namespace

SGTRAIN_REGISTER(Optimizer, RmsProp, "RMSprop");
}  // namespace sgtrain::optim
