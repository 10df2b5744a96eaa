// From a model and `initial_lr` to the optimizer's parameter groups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "tensor/module.h"

namespace sgtrain::optim {

struct GroupParams {
  /// Learning rate by prefix of the parameter's name; "default" is for all others. 0 freezes
  /// (requires_grad off, in no group). The longest prefix that fits wins.
  std::map<std::string, double> initial_lr;
  /// `zero_weight_decay_on_bias_and_bn`: each group becomes two of the same name, first the one
  /// without weight decay (weights of normalisation layers and every `bias`), then the other.
  bool no_decay_on_bias_and_norm = false;
  /// `finetune`: only parameters with these prefixes are trained, at the default rate.
  std::vector<std::string> finetune_prefixes;
};

/// Groups in order of the prefixes' names, "default" last; parameters in the model's order. Groups
/// without parameters are left out unless no-decay groups are asked for, where both halves stay.
/// Throws core::InputError: a prefix that no parameter has, no "default", nothing left to train.
std::vector<ParamGroup> param_groups(tensor::Module& model, const GroupParams& params);

}  // namespace sgtrain::optim
