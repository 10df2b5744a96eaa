// A recipe: YAML files composed as Hydra does, changed by command-line overrides and short keys,
// interpolated, checked. The result is one tree that knows file and line of every value.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

struct LoadOptions {
  std::string recipe;                               // a path, or a name with or without .yaml
  std::vector<std::filesystem::path> config_dirs;   // the user's recipe folders, searched first
  std::vector<std::string> overrides;               // key=value, +key=value, ~key, group=name
  std::vector<std::filesystem::path> plugins = {};  // --plugin: beside the recipe's `plugins`
  bool allow_missing = false;                       // leave ??? (and what depends on it) in place
  /// Short keys (lr, batch_size, model, imgsz, …) and `_target_` maps of plain values
  /// (numpy.arange); without, the tree is Hydra's composition alone.
  bool apply_shortcuts = true;
  /// Changes the composed tree (overrides and short keys done) before interpolation.
  std::function<void(const core::TreePtr& root, core::Problems& problems)> edit = {};
  /// When given, mistakes of values (not of composition) are added here instead of being thrown,
  /// so that they are listed together with those found while the tree is read.
  std::shared_ptr<core::Problems> problems = {};
};

struct Recipe {
  core::TreePtr tree;
  std::filesystem::path file;  // the recipe itself: relative data paths start in its folder
  std::vector<std::filesystem::path> sources;  // all files it is made of, in order of merging
  std::vector<std::string> notes;              // to be shown once
  std::set<std::string> variables;  // dotted keys that interpolations read: they count as read
};

/// Composes a recipe. Order: defaults lists, overrides, short keys (variable_setup), interpolation.
/// Throws one InputError that lists every mistake with file:line, key and the nearest right name.
Recipe load(const LoadOptions& options);

/// One flat YAML; load() of it gives an equal tree.
std::string to_yaml(const Recipe& recipe);

/// Names of the recipes in `config_dirs` and of the shipped ones, sorted.
std::vector<std::string> list_recipes(const std::vector<std::filesystem::path>& config_dirs = {});

}  // namespace sgtrain::recipe
