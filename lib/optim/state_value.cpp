#include "optim/state_value.h"

#include <fmt/format.h>

#include "core/error.h"

namespace sgtrain::optim {

using tensor::Value;

Value to_value(const OptimizerState& state) {
  Value per_parameter = Value::dict();
  for (const auto& [number, slots] : state.state) {
    Value entry = Value::dict();
    for (const auto& [name, value] : slots) entry.append(name, value);
    per_parameter.append(number, entry);
  }
  Value groups = Value::list();
  for (const OptimizerState::Group& group : state.groups) {
    Value entry = Value::dict();
    for (const auto& [name, value] : group.options) entry.append(name, value);
    Value params = Value::list();
    for (const std::int64_t number : group.params) params.append(number);
    entry.append("params", params);
    groups.append(entry);
  }
  return Value::dict({{"state", per_parameter}, {"param_groups", groups}});
}

OptimizerState from_value(const Value& value, const std::string& where) {
  OptimizerState out;
  try {
    for (const auto& [number, entry] : value["state"].pairs()) {
      auto& slots = out.state[number.as_int()];
      for (const auto& [name, slot] : entry.pairs()) slots.emplace_back(name.as_string(), slot);
    }
    for (const Value& entry : value["param_groups"].items()) {
      OptimizerState::Group group;
      for (const auto& [name, option] : entry.pairs()) {
        if (name.as_string() != "params") {
          group.options.emplace_back(name.as_string(), option);
          continue;
        }
        for (const Value& number : option.items()) group.params.push_back(number.as_int());
      }
      out.groups.push_back(std::move(group));
    }
  } catch (const core::Error& error) {
    throw core::InputError(fmt::format("'optimizer_state_dict' is broken: {}", error.what()), where,
                           "set load_opt_params: False to continue without it");
  }
  return out;
}

}  // namespace sgtrain::optim
