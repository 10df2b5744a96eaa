#include "optim/grad_scaler.h"

#include <map>
#include <vector>

namespace sgtrain::optim {

GradScaler::GradScaler(at::Device device, const GradScalerParams& params)
    : params_(params),
      scale_(
          at::full({1}, params.init_scale, at::TensorOptions().dtype(at::kFloat).device(device))),
      growth_tracker_(at::zeros({1}, at::TensorOptions().dtype(at::kInt).device(device))),
      found_inf_(at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(device))) {}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return loss * scale_.squeeze();
}

void GradScaler::unscale(Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  found_inf_.zero_();
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& grad : optimizer.gradients()) by_type[grad.scalar_type()].push_back(grad);
  for (auto& [type, grads] : by_type) {
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found_inf_, inverse);
  }
  if (hook_) hook_(found_inf_);
  unscaled_ = true;
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!unscaled_) unscale(optimizer);
  if (found_inf_.item().toFloat() != 0.0F) return false;
  optimizer.step();
  return true;
}

void GradScaler::update() {
  const at::NoGradGuard no_grad;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, params_.growth_factor,
                         params_.backoff_factor, params_.growth_interval);
  unscaled_ = false;
}

tensor::Value GradScaler::state_dict() const {
  using tensor::Value;
  return Value::dict({{"scale", current_scale()},
                      {"growth_factor", params_.growth_factor},
                      {"backoff_factor", params_.backoff_factor},
                      {"growth_interval", params_.growth_interval},
                      {"_growth_tracker", growth_tracker_.item().toLong()}});
}

void GradScaler::load_state_dict(const tensor::Value& state) {
  if (!state.is_dict() || state.pairs().empty()) return;
  scale_.fill_(state["scale"].as_double());
  growth_tracker_.fill_(state["_growth_tracker"].as_int());
  params_.growth_factor = state["growth_factor"].as_double();
  params_.backoff_factor = state["backoff_factor"].as_double();
  params_.growth_interval = state["growth_interval"].as_int();
}

}  // namespace sgtrain::optim
