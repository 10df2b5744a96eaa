// Building registered components in tests from simple keys.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/node.h"

namespace sgtrain::support {

using ComponentKeys = std::vector<std::pair<std::string, core::TreePtr>>;

inline core::TreePtr map_of(const ComponentKeys& keys) {
  core::TreePtr map = core::Tree::make_map();
  for (const auto& [key, value] : keys) map->set(key, value);
  return map;
}

inline core::TreePtr numbers(const std::vector<double>& values) {
  core::TreePtr list = core::Tree::make_list();
  for (const double value : values) list->list.push_back(core::Tree::of(value));
  return list;
}

/// A component of the registry of Interface; throws with all problems of the parameters, unread
/// keys included.
template <class Interface>
std::unique_ptr<Interface> make_component(const std::string& name, const ComponentKeys& keys = {}) {
  core::Node node(map_of(keys), std::make_shared<core::Problems>());
  const auto maker = Interface::registry().parse({.name = name, .params = node});
  node.report_unread();
  node.problems()->throw_if_any("parameters of " + name);
  return maker();
}

}  // namespace sgtrain::support
