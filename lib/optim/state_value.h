// Between an optimizer's state and the values of a checkpoint file, in torch's layout:
// {"state": {number: {"exp_avg": tensor, …}}, "param_groups": [{"lr": …, "params": [number, …]}]}.
#pragma once

#include <string>

#include "optim/optimizer.h"
#include "tensor/value.h"

namespace sgtrain::optim {

tensor::Value to_value(const OptimizerState& state);
/// Throws core::InputError; `where` names the file.
OptimizerState from_value(const tensor::Value& value, const std::string& where);

}  // namespace sgtrain::optim
