#include "optim/clip.h"

#include <map>
#include <vector>

namespace sgtrain::optim {

at::Tensor grad_norm(std::span<const at::Tensor> grads) {
  const at::NoGradGuard no_grad;
  if (grads.empty()) return at::zeros({});
  std::vector<at::Tensor> norms =
      at::_foreach_norm(at::TensorList(grads.data(), grads.size()), 2.0);
  for (at::Tensor& norm : norms) norm = norm.to(norms.front().options());
  return at::linalg_vector_norm(at::stack(norms), 2.0);
}

void clip_grad_norm(std::span<const at::Tensor> grads, const at::Tensor& norm, double max_norm) {
  constexpr double kEps = 1e-6;
  const at::NoGradGuard no_grad;
  const at::Tensor factor = (max_norm / (norm + kEps)).clamp_max(1.0);
  std::map<std::pair<at::DeviceType, int>, std::vector<at::Tensor>> by_device;
  for (const at::Tensor& grad : grads) {
    by_device[{grad.device().type(), grad.device().index()}].push_back(grad);
  }
  for (auto& [device, list] : by_device) {
    at::_foreach_mul_(list, factor.to(list.front().device()));
  }
}

at::Tensor clip_grad_norm(std::span<const at::Tensor> grads, double max_norm) {
  at::Tensor norm = grad_norm(grads);
  clip_grad_norm(grads, norm, max_norm);
  return norm;
}

at::Tensor clip_grad_norm(const Optimizer& optimizer, double max_norm) {
  const std::vector<at::Tensor> grads = optimizer.gradients();
  return clip_grad_norm(grads, max_norm);
}

}  // namespace sgtrain::optim
