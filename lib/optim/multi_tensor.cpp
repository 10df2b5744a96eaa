#include "optim/multi_tensor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/error.h"

namespace sgtrain::optim {
namespace {

using tensor::Value;

[[noreturn]] void misfit(const std::string& what) {
  throw core::InputError(
      "the optimizer's state does not fit: " + what, {},
      "continue with the same model and optimizer, or set load_opt_params: False");
}

std::string name_of(const ParamGroup& group, std::size_t i) {
  return i < group.param_names.size() ? group.param_names[i] : fmt::format("number {}", i);
}

// Kernels walk parameter, gradient and state side by side: all must lie in memory alike.
at::Tensor laid_out_like(const at::Tensor& grad, const at::Tensor& param) {
  if (grad.strides() == param.strides() && grad.scalar_type() == param.scalar_type()) return grad;
  return at::empty_like(param).copy_(grad);
}

}  // namespace

void MultiTensorBase::on_bind() {
  states_.clear();
  for (const ParamGroup& group : groups_) states_.emplace_back(group.params.size());
  group_steps_.assign(groups_.size(), 0);
}

MultiTensorBase::State MultiTensorBase::make_state(const at::Tensor& param) const {
  State state;
  for (const Slot& slot : slots()) {
    state.slots.push_back(slot.initial == 0.0 ? at::zeros_like(param)
                                              : at::full_like(param, slot.initial));
  }
  state.step = at::zeros({}, param.options().dtype(at::kFloat).requires_grad(false));
  return state;
}

std::vector<Batch> MultiTensorBase::gather() {
  const std::size_t slot_count = slots().size();
  std::vector<Batch> out;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    ParamGroup& group = groups_[g];
    std::map<std::tuple<at::DeviceType, int, at::ScalarType, bool>, std::size_t> places;
    for (std::size_t i = 0; i < group.params.size(); ++i) {
      const at::Tensor& param = group.params[i];
      const at::Tensor& grad = param.grad();
      if (!grad.defined()) continue;
      if (grad.is_sparse()) throw core::Error("sparse gradients have no optimizer here");
      State& state = states_[g][i];
      const bool first = !state.step.defined();
      if (first) state = make_state(param);
      const auto key = std::make_tuple(param.device().type(), int{param.device().index()},
                                       param.scalar_type(), first);
      const auto [place, fresh] = places.try_emplace(key, out.size());
      if (fresh) {
        out.push_back({.group = g,
                       .first = first,
                       .lr = group.lr,
                       .weight_decay = group.weight_decay,
                       .params = {},
                       .grads = {},
                       .slots = std::vector<std::vector<at::Tensor>>(slot_count),
                       .steps = {}});
      }
      Batch& batch = out[place->second];
      batch.params.push_back(param);
      batch.grads.push_back(laid_out_like(grad, param));
      for (std::size_t s = 0; s < slot_count; ++s) batch.slots[s].push_back(state.slots[s]);
      batch.steps.push_back(state.step);
    }
  }
  return out;
}

void MultiTensorBase::step() {
  const at::NoGradGuard no_grad;
  std::vector<Batch> batches = gather();
  for (std::int64_t& count : group_steps_) ++count;
  before_updates(batches);
  for (Batch& batch : batches) {
    const StepCount count = step_count();
    if (count == StepCount::kTensor || count == StepCount::kInt) at::_foreach_add_(batch.steps, 1);
    update(batch);
  }
}

OptimizerState::Slots MultiTensorBase::write_state(const State& state) const {
  OptimizerState::Slots out;
  if (step_count() == StepCount::kTensor) out.emplace_back("step", state.step.detach().cpu());
  if (step_count() == StepCount::kInt) out.emplace_back("step", state.step.item().toLong());
  const std::vector<Slot> names = slots();
  for (std::size_t s = 0; s < names.size(); ++s) out.emplace_back(names[s].name, state.slots[s]);
  return out;
}

OptimizerState MultiTensorBase::state_dict() const {
  OptimizerState out;
  std::int64_t number = 0;
  const bool keeps_state = !slots().empty();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    OptimizerState::Group group;
    group.options = {{"lr", groups_[g].lr},
                     {"weight_decay", groups_[g].weight_decay},
                     {"name", groups_[g].name}};
    for (auto& option : options(g)) group.options.push_back(std::move(option));
    if (step_count() == StepCount::kGroup) group.options.emplace_back("step", group_steps_[g]);
    for (const State& state : states_[g]) {
      if (state.step.defined() && keeps_state) out.state[number] = write_state(state);
      group.params.push_back(number++);
    }
    out.groups.push_back(std::move(group));
  }
  return out;
}

MultiTensorBase::State MultiTensorBase::read_state(const OptimizerState::Slots& saved,
                                                   const at::Tensor& param,
                                                   const std::string& name) const {
  State state = make_state(param);
  const std::vector<Slot> names = slots();
  for (const auto& [key, value] : saved) {
    if (value.is_none()) continue;  // torch keeps "momentum_buffer: None" when it has none
    if (key == "step") {
      state.step.fill_(value.as_double());
      continue;
    }
    const auto known = std::find_if(names.begin(), names.end(),
                                    [&](const Slot& slot) { return key == slot.name; });
    if (known == names.end()) misfit(fmt::format("'{}' is of another optimizer", key));
    const at::Tensor& tensor = value.as_tensor();
    if (tensor.sizes() != param.sizes()) {
      misfit(fmt::format("'{}' of parameter '{}' has shape {}, the parameter has {}", key, name,
                         tensor.sizes(), param.sizes()));
    }
    state.slots[static_cast<std::size_t>(known - names.begin())].copy_(tensor);
  }
  return state;
}

void MultiTensorBase::load_state_dict(const OptimizerState& saved) {
  const at::NoGradGuard no_grad;
  if (saved.groups.size() != groups_.size()) {
    misfit(
        fmt::format("{} parameter groups, this run has {}", saved.groups.size(), groups_.size()));
  }
  auto states = std::vector<std::vector<State>>(groups_.size());
  try {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const ParamGroup& group = groups_[g];
      const OptimizerState::Group& from = saved.groups[g];
      if (from.params.size() != group.params.size()) {
        misfit(fmt::format("group {} ('{}') has {} parameters, here it has {}", g, group.name,
                           from.params.size(), group.params.size()));
      }
      states[g].resize(group.params.size());
      for (std::size_t i = 0; i < group.params.size(); ++i) {
        const auto found = saved.state.find(from.params[i]);
        if (found == saved.state.end() || found->second.empty()) continue;
        states[g][i] = read_state(found->second, group.params[i], name_of(group, i));
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      set_options(g, saved.groups[g].options);
      for (const auto& [key, value] : saved.groups[g].options) {
        if (key == "lr") groups_[g].lr = value.as_double();
        if (key == "weight_decay") groups_[g].weight_decay = value.as_double();
        if (key == "step") group_steps_[g] = value.as_int();
      }
    }
  } catch (const core::InputError&) {
    throw;
  } catch (const std::exception& error) {
    misfit(error.what());
  }
  states_ = std::move(states);
}

void accept_torch_switches(core::Node& node) {
  for (const char* key : {"foreach", "fused", "capturable", "differentiable"}) {
    if (node.find<bool>(key)) {
      node.problems()->note(fmt::format("optimizer_params.{} has no effect here", key));
    }
  }
}

Betas read_betas(core::Node& node, Betas fallback) {
  const std::vector<double> values =
      node.get_or<std::vector<double>>("betas", {fallback[0], fallback[1]}).in(0.0, 1.0);
  if (values.size() != 2) {
    node.problem("betas", "two numbers are needed");
    return fallback;
  }
  return {values[0], values[1]};
}

}  // namespace sgtrain::optim
