// Building architectures in tests by name and simple keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/node.h"
#include "models/model.h"

namespace sgtrain::support {

using Keys = std::vector<std::pair<std::string, core::TreePtr>>;

inline core::TreePtr list_of(std::initializer_list<std::int64_t> values) {
  core::TreePtr list = core::Tree::make_list();
  for (const std::int64_t value : values) list->list.push_back(core::Tree::of(value));
  return list;
}

/// Throws with all problems of the parameters, unread keys included.
inline std::unique_ptr<models::Model> build_model(const std::string& name, const Keys& keys) {
  core::TreePtr tree = core::Tree::make_map();
  for (const auto& [key, value] : keys) tree->set(key, value);
  core::Node node(tree, std::make_shared<core::Problems>());
  const auto maker = models::Model::registry().parse({.name = name, .params = node});
  node.report_unread();
  node.problems()->throw_if_any("arch_params");
  return maker();
}
inline std::unique_ptr<models::Model> build_model(const std::string& name, std::int64_t num_classes,
                                                  Keys keys = {}) {
  keys.emplace_back("num_classes", core::Tree::of(num_classes));
  return build_model(name, keys);
}

}  // namespace sgtrain::support
