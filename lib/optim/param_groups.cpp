#include "optim/param_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::optim {
namespace {

constexpr const char* kDefault = "default";

std::string owner(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

bool ends_with_part(const std::string& name, std::string_view part) {
  return name == part || name.ends_with("." + std::string(part));
}

// Every `bias`, and the `weight` of normalisation layers: the only modules whose weight has one
// dimension and a bias beside it.
std::set<std::string> undecayed(const std::vector<tensor::TensorRef>& parameters) {
  std::set<std::string> biased, out;
  for (const auto& parameter : parameters) {
    if (!ends_with_part(parameter.name, "bias")) continue;
    biased.insert(owner(parameter.name));
    out.insert(parameter.name);
  }
  for (const auto& parameter : parameters) {
    const bool norm = ends_with_part(parameter.name, "weight") && parameter.tensor->dim() == 1 &&
                      biased.count(owner(parameter.name)) > 0;
    if (norm) out.insert(parameter.name);
  }
  return out;
}

std::string group_of(const std::string& name, const std::map<std::string, double>& rates) {
  std::string best = kDefault;
  std::size_t length = 0;
  for (const auto& [prefix, lr] : rates) {
    if (prefix == kDefault || !name.starts_with(prefix) || prefix.size() <= length) continue;
    best = prefix;
    length = prefix.size();
  }
  return best;
}

std::map<std::string, double> rates_of(const GroupParams& params) {
  const auto found = params.initial_lr.find(kDefault);
  if (found == params.initial_lr.end()) {
    throw core::InputError("initial_lr has no 'default'", "training_hyperparams.initial_lr",
                           "add `default: <learning rate>` for all other parameters");
  }
  if (params.finetune_prefixes.empty()) return params.initial_lr;
  if (params.initial_lr.size() > 1) {
    throw core::InputError("finetune needs one initial_lr, not one per prefix",
                           "training_hyperparams.finetune");
  }
  std::map<std::string, double> rates = {{kDefault, 0.0}};
  for (const std::string& prefix : params.finetune_prefixes) rates[prefix] = found->second;
  return rates;
}

}  // namespace

std::vector<ParamGroup> param_groups(tensor::Module& model, const GroupParams& params) {
  const std::map<std::string, double> rates = rates_of(params);
  const std::vector<tensor::TensorRef> parameters = model.named_parameters();
  std::map<std::string, ParamGroup> by_name;
  for (const auto& [name, lr] : rates) {
    by_name[name].name = name;
    by_name[name].lr = by_name[name].initial_lr = lr;
  }
  std::set<std::string> used;
  for (const auto& parameter : parameters) {
    const std::string name = group_of(parameter.name, rates);
    used.insert(name);
    if (!parameter.tensor->requires_grad()) continue;  // the model itself keeps it as it is
    if (rates.at(name) == 0.0) {
      parameter.tensor->set_requires_grad(false);
      continue;
    }
    by_name[name].params.push_back(*parameter.tensor);
    by_name[name].param_names.push_back(parameter.name);
  }
  for (const auto& [name, lr] : rates) {
    if (name == kDefault || used.count(name) > 0) continue;
    std::vector<std::string> tops;
    for (const auto& [child, module] : model.children()) tops.push_back(child);
    throw core::InputError(
        fmt::format("no parameter's name begins with '{}'{}", name, core::did_you_mean(name, tops)),
        "training_hyperparams.initial_lr", "the model's parts are: " + core::join(tops));
  }

  const std::set<std::string> no_decay =
      params.no_decay_on_bias_and_norm ? undecayed(parameters) : std::set<std::string>{};
  std::vector<ParamGroup> out;
  const auto add = [&](const ParamGroup& group) {
    if (group.params.empty()) return;
    if (!params.no_decay_on_bias_and_norm) {
      out.push_back(group);
      return;
    }
    for (const bool decays : {false, true}) {
      ParamGroup half = group;
      half.params.clear();
      half.param_names.clear();
      half.no_decay = !decays;
      for (std::size_t i = 0; i < group.params.size(); ++i) {
        if ((no_decay.count(group.param_names[i]) == 0) != decays) continue;
        half.params.push_back(group.params[i]);
        half.param_names.push_back(group.param_names[i]);
      }
      out.push_back(std::move(half));
    }
  };
  for (const auto& [name, group] : by_name) {
    if (name != kDefault) add(group);
  }
  add(by_name[kDefault]);
  if (out.empty()) {
    throw core::InputError("every parameter is frozen: nothing is left to train",
                           "training_hyperparams.initial_lr", "give a learning rate above 0");
  }
  return out;
}

}  // namespace sgtrain::optim
