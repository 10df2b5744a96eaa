// What all optimizers share: per-parameter state in slots, gathering of gradients into lists that
// one kernel call can take, and torch's state_dict layout.
//
// An optimizer is a Params struct (its options, one copy per group) and an update of a Batch:
//
//   class Lion final : public MultiTensor<LionParams> { … void update(Batch& batch) override; };
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optim/optimizer.h"

namespace sgtrain::optim {

/// A tensor that an optimizer keeps per parameter, shaped like it.
struct Slot {
  const char* name;      // as torch names it in a state_dict
  double initial = 0.0;  // value of all elements before the first step
};

/// How an optimizer counts steps, as its state_dict shows it.
enum class StepCount {
  kNone,
  kTensor,  // per parameter, a float32 tensor (torch's own optimizers)
  kInt,     // per parameter
  kGroup,   // one number in the group's options
};

/// Parameters of one group that one kernel call can take: same device, type, and either all at
/// their first step or none.
struct Batch {
  std::size_t group = 0;
  bool first = false;
  double lr = 0.0, weight_decay = 0.0;
  std::vector<at::Tensor> params, grads;  // grads laid out like params
  std::vector<std::vector<at::Tensor>> slots;
  std::vector<at::Tensor> steps;  // kTensor and kInt, counted already
};

class MultiTensorBase : public Optimizer {
 public:
  void step() final;
  OptimizerState state_dict() const final;
  void load_state_dict(const OptimizerState& state) final;

 protected:
  using Options = std::vector<std::pair<std::string, tensor::Value>>;

  virtual std::vector<Slot> slots() const = 0;
  virtual StepCount step_count() const = 0;
  /// Once per step, before the updates, with the gradients of all groups.
  virtual void before_updates(std::vector<Batch>& batches) { static_cast<void>(batches); }
  virtual void update(Batch& batch) = 0;
  virtual Options options(std::size_t group) const = 0;
  virtual void set_options(std::size_t group, const Options& saved) = 0;
  void on_bind() override;

  std::int64_t group_step(std::size_t group) const { return group_steps_[group]; }

 private:
  struct State {                    // of one parameter
    std::vector<at::Tensor> slots;  // undefined before the first step
    at::Tensor step;                // float32, on the parameter's device
  };
  std::vector<Batch> gather();
  State make_state(const at::Tensor& param) const;
  State read_state(const OptimizerState::Slots& saved, const at::Tensor& param,
                   const std::string& name) const;
  OptimizerState::Slots write_state(const State& state) const;

  std::vector<std::vector<State>> states_;  // [group][parameter]
  std::vector<std::int64_t> group_steps_;
};

using Betas = std::array<double, 2>;

/// Adds the options to the base: P has `visit(f)`, which calls f(name, field) for each option that
/// a state_dict keeps; fields are double, bool, std::int64_t or Betas.
template <class P>
class MultiTensor : public MultiTensorBase {
 public:
  explicit MultiTensor(const P& params) : params_(params) {}

  bool set_momentum(double value) override {
    bool has = false;
    P own = params_;
    own.visit([&](const char* name, auto& field) {
      if (const double* momentum = momentum_in(name, field)) has = *momentum > 0.0;
    });
    for (P& group : per_group_) {
      group.visit([&](const char* name, auto& field) {
        if (double* momentum = momentum_in(name, field); has && momentum != nullptr)
          *momentum = value;
      });
    }
    return has;
  }

 protected:
  double weight_decay() const override { return params_.weight_decay; }
  void on_bind() override {
    MultiTensorBase::on_bind();
    per_group_.assign(groups_.size(), params_);
  }
  const P& of(const Batch& batch) const { return per_group_[batch.group]; }

  Options options(std::size_t group) const override {
    Options out;
    P copy = per_group_[group];
    copy.visit([&](const char* name, auto& field) { out.emplace_back(name, to_value(field)); });
    return out;
  }
  void set_options(std::size_t group, const Options& saved) override {
    per_group_[group].visit([&](const char* name, auto& field) {
      for (const auto& [key, value] : saved) {
        if (key == name && !value.is_none()) from_value(value, field);
      }
    });
  }

  P params_;

 private:
  static double* momentum_in(std::string_view name, double& field) {
    return name == "momentum" ? &field : nullptr;
  }
  static double* momentum_in(std::string_view name, Betas& field) {
    return name == "betas" ? field.data() : nullptr;
  }
  static double* momentum_in(std::string_view, bool&) { return nullptr; }

  static tensor::Value to_value(const Betas& betas) {
    return tensor::Value::tuple({betas[0], betas[1]});
  }
  template <class T>
  static tensor::Value to_value(const T& field) {
    return field;
  }
  static void from_value(const tensor::Value& value, double& field) { field = value.as_double(); }
  static void from_value(const tensor::Value& value, bool& field) { field = value.as_bool(); }
  static void from_value(const tensor::Value& value, Betas& field) {
    for (std::size_t i = 0; i < field.size(); ++i) field[i] = value.items().at(i).as_double();
  }

  std::vector<P> per_group_;
};

/// Options of torch's optimizers that choose an implementation: accepted, without effect here.
void accept_torch_switches(core::Node& node);

/// `betas: [0.9, 0.999]`
Betas read_betas(core::Node& node, Betas fallback);

}  // namespace sgtrain::optim
