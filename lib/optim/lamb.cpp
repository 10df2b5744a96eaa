#include <cmath>

#include "core/registry.h"
#include "optim/multi_tensor.h"

namespace sgtrain::optim {
namespace {

struct LambParams {
  bool bias_correction = true;
  Betas betas = {0.9, 0.999};
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool grad_averaging = true;  // weigh the gradient by 1 - beta1 in the first moment
  double max_grad_norm = 1.0;  // over all parameters; gradients are scaled down to it
  bool trust_clip = false;     // trust ratio at most 1
  bool always_adapt = false;   // trust ratio also where there is no weight decay

  static LambParams from(core::Node& node) {
    LambParams p;
    p.bias_correction = node.get_or("bias_correction", p.bias_correction);
    p.betas = read_betas(node, p.betas);
    p.eps = node.get_or("eps", p.eps).min(0.0);
    p.weight_decay = node.get_or("weight_decay", p.weight_decay).min(0.0);
    p.grad_averaging = node.get_or("grad_averaging", p.grad_averaging);
    p.max_grad_norm = node.get_or("max_grad_norm", p.max_grad_norm).above(0.0);
    p.trust_clip = node.get_or("trust_clip", p.trust_clip);
    p.always_adapt = node.get_or("always_adapt", p.always_adapt);
    return p;
  }
  template <class F>
  void visit(F&& f) {
    f("bias_correction", bias_correction);
    f("betas", betas);
    f("eps", eps);
    f("grad_averaging", grad_averaging);
    f("max_grad_norm", max_grad_norm);
    f("trust_clip", trust_clip);
    f("always_adapt", always_adapt);
  }
};

/// LAMB, You et al. 2020 (large batch optimization for deep learning), the variant of NVIDIA's
/// FusedLAMB: Adam's direction, scaled per parameter by |w| / |update|, after clipping the global
/// gradient norm.
class Lamb final : public MultiTensor<LambParams> {
 public:
  using Params = LambParams;
  using MultiTensor::MultiTensor;

 protected:
  std::vector<Slot> slots() const override { return {{"exp_avg"}, {"exp_avg_sq"}}; }
  StepCount step_count() const override { return StepCount::kGroup; }

  void before_updates(std::vector<Batch>& batches) override {
    std::vector<at::Tensor> norms;
    for (const Batch& batch : batches) {
      for (const at::Tensor& norm : at::_foreach_norm(batch.grads, 2.0)) norms.push_back(norm);
    }
    if (norms.empty()) return;
    for (at::Tensor& norm : norms) norm = norm.to(norms.front().options());
    const at::Tensor total = at::stack(norms).norm(2.0);
    const at::Tensor divisor = (total / params_.max_grad_norm).clamp_min(1.0);
    for (Batch& batch : batches) {
      // Not in place: the gradients of a reducer's buckets are not ours to change.
      batch.grads = at::_foreach_div(batch.grads, divisor.to(batch.grads.front().options()));
    }
  }

  void update(Batch& batch) override {
    const Params& p = of(batch);
    const auto step = static_cast<double>(group_step(batch.group));
    const double correction1 = p.bias_correction ? 1.0 - std::pow(p.betas[0], step) : 1.0;
    const double correction2 = p.bias_correction ? 1.0 - std::pow(p.betas[1], step) : 1.0;
    std::vector<at::Tensor>& mean = batch.slots[0];
    std::vector<at::Tensor>& square = batch.slots[1];
    at::_foreach_mul_(mean, p.betas[0]);
    at::_foreach_add_(mean, batch.grads, p.grad_averaging ? 1.0 - p.betas[0] : 1.0);
    at::_foreach_mul_(square, p.betas[1]);
    at::_foreach_addcmul_(square, batch.grads, batch.grads, 1.0 - p.betas[1]);

    std::vector<at::Tensor> root = at::_foreach_sqrt(square);
    at::_foreach_div_(root, std::sqrt(correction2));
    at::_foreach_add_(root, p.eps);
    std::vector<at::Tensor> update = at::_foreach_div(mean, correction1);
    at::_foreach_div_(update, root);
    if (batch.weight_decay != 0.0) at::_foreach_add_(update, batch.params, batch.weight_decay);
    if (batch.weight_decay != 0.0 || p.always_adapt) adapt(batch, p, update);
    at::_foreach_add_(batch.params, update, -batch.lr);
  }

 private:
  static void adapt(const Batch& batch, const Params& p, std::vector<at::Tensor>& update) {
    const at::Tensor weight_norm = at::stack(at::_foreach_norm(batch.params, 2.0));
    const at::Tensor update_norm = at::stack(at::_foreach_norm(update, 2.0));
    const at::Tensor one = at::ones_like(weight_norm);
    at::Tensor ratio =
        at::where((weight_norm > 0) & (update_norm > 0), weight_norm / update_norm, one);
    if (p.trust_clip) ratio = ratio.clamp_max(1.0);
    const std::vector<at::Tensor> ratios = ratio.unbind();
    for (std::size_t i = 0; i < update.size(); ++i) update[i].mul_(ratios[i]);
  }
};

}  // namespace

SGTRAIN_REGISTER(Optimizer, Lamb, "Lamb");
}  // namespace sgtrain::optim
