#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

struct RmsPropTfParams {
  double alpha = 0.9;  // decay of the squared average
  double eps = 1e-10;  // added under the root
  double momentum = 0.9;
  double weight_decay = 1e-4;  // momentum and this: the reference implementation's defaults
  bool centered = false;
  bool decoupled_decay = false;  // shrink the weights by weight_decay itself, whatever the lr
  bool lr_in_momentum = true;    // the buffer accumulates lr * gradient

  static RmsPropTfParams from(core::Node& node) {
    RmsPropTfParams p;
    p.alpha = node.get_or("alpha", p.alpha).in(0.0, 1.0);
    p.eps = node.get_or("eps", p.eps).min(0.0);
    p.momentum = node.get_or("momentum", p.momentum).min(0.0);
    p.weight_decay = node.get_or("weight_decay", p.weight_decay).min(0.0);
    p.centered = node.get_or("centered", p.centered);
    p.decoupled_decay = node.get_or("decoupled_decay", p.decoupled_decay);
    p.lr_in_momentum = node.get_or("lr_in_momentum", p.lr_in_momentum);
    return p;
  }
  template <class F>
  void visit(F&& f) {
    f("momentum", momentum);
    f("alpha", alpha);
    f("eps", eps);
    f("centered", centered);
    f("decoupled_decay", decoupled_decay);
    f("lr_in_momentum", lr_in_momentum);
  }
};

/// RMSprop as TensorFlow computes it, with which EfficientNet and RegNet were trained: epsilon
/// under the root, the squared average starts at one, the learning rate enters the momentum buffer.
class RmsPropTf final : public MultiTensor<RmsPropTfParams> {
 public:
  using Params = RmsPropTfParams;
  using MultiTensor::MultiTensor;

 protected:
  std::vector<Slot> slots() const override {
    std::vector<Slot> out = {{"square_avg", 1.0}};
    if (params_.momentum > 0.0) out.push_back({"momentum_buffer"});
    if (params_.centered) out.push_back({"grad_avg"});
    return out;
  }
  StepCount step_count() const override { return StepCount::kInt; }

  void update(Batch& batch) override {
    const Params& p = of(batch);
    std::vector<at::Tensor> grads = batch.grads;
    if (batch.weight_decay != 0.0) {
      if (p.decoupled_decay) {
        at::_foreach_mul_(batch.params, 1.0 - batch.weight_decay);
      } else {
        grads = at::_foreach_add(grads, batch.params, batch.weight_decay);
      }
    }
    std::vector<at::Tensor>& square = batch.slots[0];
    std::vector<at::Tensor> change = at::_foreach_mul(grads, grads);
    at::_foreach_sub_(change, square);
    at::_foreach_add_(square, change, 1.0 - p.alpha);
    std::vector<at::Tensor> root;
    if (params_.centered) {
      std::vector<at::Tensor>& mean = batch.slots.back();
      at::_foreach_lerp_(mean, grads, 1.0 - p.alpha);
      root = at::_foreach_addcmul(square, mean, mean, -1.0);
      at::_foreach_add_(root, p.eps);
    } else {
      root = at::_foreach_add(square, p.eps);
    }
    at::_foreach_sqrt_(root);
    if (params_.momentum > 0.0) {
      std::vector<at::Tensor>& buffer = batch.slots[1];
      at::_foreach_mul_(buffer, p.momentum);
      at::_foreach_addcdiv_(buffer, grads, root, p.lr_in_momentum ? batch.lr : 1.0);
      at::_foreach_add_(batch.params, buffer, p.lr_in_momentum ? -1.0 : -batch.lr);
    } else {
      at::_foreach_addcdiv_(batch.params, grads, root, -batch.lr);
    }
  }
};

}  // namespace

SGTRAIN_REGISTER(Optimizer, RmsPropTf, "RMSpropTF");
}  // namespace sgtrain::optim
