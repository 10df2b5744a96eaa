#include "optim/ema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "core/error.h"

namespace sgtrain::optim {

double ema_decay(const EmaParams& params, std::int64_t step, std::int64_t total_steps) {
  const auto s = static_cast<double>(step);
  if (params.decay_type == "constant") return params.decay;
  if (params.decay_type == "threshold") return std::min(params.decay, (1.0 + s) / (10.0 + s));
  if (params.decay_type == "exp") {
    const double x = s / static_cast<double>(total_steps);
    return params.decay * (1.0 - std::exp(-x * params.beta));
  }
  throw core::InputError("unknown decay_type '" + params.decay_type + "'", "ema_params.decay_type",
                         "one of constant, threshold, exp");
}

Ema::Ema(tensor::Module& model, const EmaParams& params, tensor::Module* averaged)
    : params_(params), averaged_(averaged) {
  ema_decay(params_, 1, 1);  // a wrong type is an error now, not at the first update
  reset(model);
}

void Ema::reset(tensor::Module& model) {
  const at::NoGradGuard no_grad;
  if (swapped_) throw core::Error("the average cannot begin anew while the model holds it");
  names_.clear();
  average_.clear();
  own_.clear();
  std::unordered_set<const at::Tensor*> own;
  for (const auto& entry : averaged_ != nullptr ? averaged_->state() : model.state())
    own.insert(entry.tensor);
  for (const tensor::TensorRef& entry : model.state()) {
    own_.push_back(own.contains(entry.tensor));
    names_.push_back(entry.name);
    average_.push_back(own_.back() ? entry.tensor->detach().clone() : *entry.tensor);
  }
}

void Ema::update(tensor::Module& model, std::int64_t step, std::int64_t total_steps) {
  const at::NoGradGuard no_grad;
  if (swapped_) throw core::Error("the average cannot be updated while the model holds it");
  const double decay = ema_decay(params_, step, total_steps);
  const std::vector<tensor::TensorRef> state = model.state();
  if (state.size() != average_.size()) {
    throw core::Error("the model changed after its moving average began");
  }
  std::vector<at::Tensor> averages, values;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (!own_[i] || !average_[i].is_floating_point()) continue;
    averages.push_back(average_[i]);
    values.push_back(state[i].tensor->detach());
  }
  if (!averages.empty()) at::_foreach_lerp_(averages, values, 1.0 - decay);
}

void Ema::swap(tensor::Module& model) {
  const std::vector<tensor::TensorRef> state = model.state();
  if (state.size() != average_.size()) {
    throw core::Error("the model changed after its moving average began");
  }
  for (std::size_t i = 0; i < state.size(); ++i) std::swap(*state[i].tensor, average_[i]);
  swapped_ = !swapped_;
}

tensor::StateDict Ema::state_dict() const {
  if (swapped_) throw core::Error("the average is in the model now");
  tensor::StateDict out;
  for (std::size_t i = 0; i < names_.size(); ++i) out.emplace_back(names_[i], average_[i]);
  return out;
}

void Ema::load_state_dict(const tensor::StateDict& state, const std::string& where) {
  const at::NoGradGuard no_grad;
  if (swapped_) throw core::Error("the average is in the model now");
  std::unordered_map<std::string, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : state) by_name[name] = &tensor;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const auto found = by_name.find(names_[i]);
    if (found == by_name.end()) {
      throw core::InputError(fmt::format("the EMA weights have no '{}'", names_[i]), where);
    }
    if (found->second->sizes() != average_[i].sizes()) {
      throw core::InputError(fmt::format("'{}' of the EMA weights has another shape", names_[i]),
                             where);
    }
  }
  for (std::size_t i = 0; i < names_.size(); ++i) average_[i].copy_(*by_name.at(names_[i]));
}

}  // namespace sgtrain::optim
