// Optimizers as multi-tensor updates, with torch.optim's state_dict layout.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"

namespace sgtrain::optim {

struct ParamGroup {
  std::string name = "default";
  std::vector<at::Tensor> params;
  std::vector<std::string> param_names;
  double lr = 0.0;
  double initial_lr = 0.0;
  double weight_decay = 0.0;  // set by the optimizer's params unless the group is a no-decay one
  bool no_decay = false;
};

/// State of the optimizer in torch's layout: per parameter (numbered over all groups in order) its
/// named tensors, and per group its hyper-parameters.
struct OptimizerState {
  std::map<std::int64_t, std::vector<std::pair<std::string, at::Tensor>>> state;
  struct Group {
    std::vector<std::pair<std::string, double>> numbers;  // lr, momentum, weight_decay …
    std::string name;
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
  void bind(std::vector<ParamGroup> groups);
  std::vector<ParamGroup>& groups() { return groups_; }

  virtual void step() = 0;
  /// Zeroes gradients in place (bucket views must keep their storage).
  void zero_grad();

  virtual OptimizerState state_dict() const = 0;
  /// Shapes are checked; an error names what does not fit.
  virtual void load_state_dict(const OptimizerState& state) = 0;

 protected:
  /// Called once by bind(): weight decay of each group from the optimizer's own parameters.
  virtual double weight_decay() const = 0;
  std::vector<ParamGroup> groups_;
};

}  // namespace sgtrain::optim
