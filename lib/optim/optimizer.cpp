#include "optim/optimizer.h"

#include <fmt/format.h>

#include <unordered_set>

#include "core/error.h"

namespace sgtrain::optim {

Optimizer::Registry& Optimizer::registry() {
  static Registry registry("optimizer");
  return registry;
}

void Optimizer::bind(std::vector<ParamGroup> groups) {
  std::unordered_set<const void*> seen;
  for (ParamGroup& group : groups) {
    group.weight_decay = group.no_decay ? 0.0 : weight_decay();
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      if (!seen.insert(group.params[i].unsafeGetTensorImpl()).second) {
        const std::string name = i < group.param_names.size() ? group.param_names[i] : "?";
        throw core::Error(fmt::format("parameter '{}' is in two groups of the optimizer", name));
      }
    }
  }
  groups_ = std::move(groups);
  on_bind();
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> out;
  for (const ParamGroup& group : groups_) {
    for (const at::Tensor& param : group.params) {
      if (param.grad().defined()) out.push_back(param.grad());
    }
  }
  return out;
}

void Optimizer::zero_grad() {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> grads = gradients();
  for (at::Tensor& grad : grads) {
    if (grad.grad_fn()) grad.detach_();
  }
  if (!grads.empty()) at::_foreach_zero_(grads);
}

}  // namespace sgtrain::optim
