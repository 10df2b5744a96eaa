// A component whose name and parameters stand at different keys.
#pragma once

#include <string>
#include <utility>

#include "core/registry.h"

namespace sgtrain::train {

/// registry.parse(component), but an unknown name is a problem of `key`, which gives the name: its
/// parameters, which nobody can judge then, may stand elsewhere.
template <class Registry>
typename Registry::MakerType parse_at(core::Node& node, const std::string& key,
                                      core::Component component, const Registry& registry) {
  if (component.name.empty() || registry.find(component.name) != nullptr)
    return registry.parse(std::move(component));
  node.problem(key, registry.unknown(component.name));
  if (component.params.tree() != node.tree()) component.params.read_all();
  return {};
}

}  // namespace sgtrain::train
