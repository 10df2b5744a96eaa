// Optimizers as multi-tensor updates, with torch.optim's state_dict layout.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "tensor/value.h"

namespace sgtrain::optim {

struct ParamGroup {
  std::string name = "default";
  std::vector<at::Tensor> params;
  std::vector<std::string> param_names;  // as many as params
  double lr = 0.0;                       // of the next step
  double initial_lr = 0.0;
  double weight_decay = 0.0;  // set by bind() unless the group is a no-decay one
  bool no_decay = false;
};

/// State of the optimizer in torch's layout: per parameter (numbered over all groups in order) its
/// named tensors, and per group its hyper-parameters. See optim/state_value.h for files.
struct OptimizerState {
  using Slots = std::vector<std::pair<std::string, tensor::Value>>;  // "exp_avg": tensor, "step": …
  std::map<std::int64_t, Slots> state;
  struct Group {
    std::vector<std::pair<std::string, tensor::Value>> options;  // lr, name, betas, weight_decay …
    std::vector<std::int64_t> params;
  };
  std::vector<Group> groups;
};

/// Made from its parameters, then bound to groups once. Steps work on whole groups with
/// at::_foreach_* or fused kernels; parameters without gradient are skipped.
class Optimizer {
 public:
  using Registry = core::Registry<Optimizer>;
  static Registry& registry();

  virtual ~Optimizer() = default;
  /// A parameter may be in one group only.
  void bind(std::vector<ParamGroup> groups);
  std::vector<ParamGroup>& groups() { return groups_; }
  const std::vector<ParamGroup>& groups() const { return groups_; }

  virtual void step() = 0;
  /// Momentum (of Adam's kin the first beta) of all groups from the next step on. False: the
  /// optimizer runs without.
  virtual bool set_momentum(double value) = 0;
  /// Zeroes gradients in place (bucket views must keep their storage). Parameters that never had
  /// a gradient stay without.
  void zero_grad();
  /// All gradients there are, group by group.
  std::vector<at::Tensor> gradients() const;

  virtual OptimizerState state_dict() const = 0;
  /// Takes over hyper-parameters (learning rates included) and a copy of the tensors. Everything
  /// is checked before anything changes; core::InputError says what does not fit.
  virtual void load_state_dict(const OptimizerState& state) = 0;

 protected:
  /// Called once by bind(): weight decay of the groups that decay.
  virtual double weight_decay() const = 0;
  virtual void on_bind() {}
  std::vector<ParamGroup> groups_;
};

}  // namespace sgtrain::optim
