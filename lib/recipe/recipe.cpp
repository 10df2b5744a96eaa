#include "recipe/recipe.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml_writer.h"
#include "recipe/defaults.h"
#include "recipe/interpolation.h"
#include "recipe/merge.h"
#include "recipe/plain_targets.h"
#include "recipe/search_path.h"
#include "recipe/variable_setup.h"

namespace sgtrain::recipe {
namespace {

namespace fs = std::filesystem;
using core::Tree;
using core::TreePtr;

struct Place {
  std::vector<fs::path> folders;  // to search, in order
  std::string path;               // of the recipe below them, without extension
};

std::string without_extension(const std::string& name) {
  for (const std::string_view extension : {".yaml", ".yml"}) {
    if (name.ends_with(extension)) return name.substr(0, name.size() - extension.size());
  }
  return name;
}

[[noreturn]] void unknown_recipe(const LoadOptions& options, const std::vector<fs::path>& tried) {
  std::string what = "there is no recipe '" + options.recipe + "'";
  const auto known = list_recipes(options.config_dirs);
  what +=
      core::did_you_mean(without_extension(fs::path(options.recipe).filename().string()), known);
  what += "\n  recipes: " + (known.empty() ? std::string("none found") : core::join(known)) +
          "\n  looked for:";
  for (const fs::path& path : tried)
    what += "\n    " + fs::absolute(path).lexically_normal().string();
  throw core::InputError(
      what, {}, "give a path or one of these names; own folders are added with --config-dir");
}

Place find_recipe(const LoadOptions& options) {
  if (core::trim(options.recipe).empty()) {
    throw core::InputError("no recipe is given", {}, "name one: --recipe quickstart");
  }
  std::vector<fs::path> folders;
  std::vector<fs::path> tried;
  std::error_code error;
  for (const fs::path& folder : options.config_dirs) {
    if (!fs::is_directory(folder, error)) {
      throw core::InputError("the recipe folder does not exist", fs::absolute(folder).string(),
                             "check --config-dir");
    }
    folders.push_back(folder);
  }
  for (fs::path& folder : shipped_folders()) folders.push_back(std::move(folder));

  const std::string name = without_extension(options.recipe);
  const bool has_extension = name != options.recipe;
  for (const char* extension : {"", ".yaml", ".yml"}) {
    if ((*extension == '\0') != has_extension) continue;
    const fs::path file = options.recipe + extension;
    tried.push_back(file);
    if (!fs::is_regular_file(file, error)) continue;
    const fs::path parent = file.parent_path();
    folders.insert(folders.begin(), parent.empty() ? fs::path(".") : parent);
    return {std::move(folders), fs::path(name).filename().string()};
  }
  if (!has_extension && fs::is_regular_file(options.recipe, error)) {
    throw core::InputError("a recipe is a file that ends in .yaml", options.recipe, "rename it");
  }
  for (const fs::path& folder : folders) {
    for (const char* extension : {".yaml", ".yml"}) {
      const fs::path file = folder / (name + extension);
      if (fs::is_regular_file(file, error)) return {std::move(folders), name};
      if (*(extension + 2) == 'a') tried.push_back(file);
    }
  }
  unknown_recipe(options, tried);
}

std::vector<Override> parse_overrides(const std::vector<std::string>& texts,
                                      core::Problems& problems) {
  std::vector<Override> out;
  for (const std::string& text : texts) {
    if (auto given = parse_override(text, problems)) out.push_back(*std::move(given));
  }
  return out;
}

/// Keys that the header of a written recipe lists were read by interpolations when it was written.
void mark_variables(const TreePtr& root, const Composition& composition, Recipe& out) {
  const std::function<void(Tree&)> below = [&](Tree& tree) {
    tree.was_read = true;
    for (const TreePtr& item : tree.list) below(*item);
    for (const auto& [key, item] : tree.map) below(*item);
  };
  for (const Step& step : composition.steps) {
    for (const std::string& name : step.source->variables) {
      std::vector<std::string> path = step.package;
      for (const std::string& key : core::split(name, '.')) path.push_back(key);
      const TreePtr value = value_at(root, path);
      if (!value) continue;
      for (std::size_t i = 1; i < path.size(); ++i) {
        value_at(root, {path.begin(), path.begin() + static_cast<std::ptrdiff_t>(i)})->was_read =
            true;
      }
      below(*value);
      out.variables.insert(core::join(path, "."));
    }
  }
}

/// Every ??? that is left is one mistake.
void report_missing(Tree& tree, const std::string& path, bool allow, core::Problems& problems) {
  if (tree.kind == Tree::Kind::kMissing && !allow) {
    problems.add(tree.mark.str(), path, "no value is given (\?\?\?), write " + path + "=...");
    tree.unresolved = true;
    tree.text = "???";
  }
  for (std::size_t i = 0; i < tree.list.size(); ++i) {
    report_missing(*tree.list[i], path + "." + std::to_string(i), allow, problems);
  }
  for (const auto& [key, value] : tree.map) {
    report_missing(*value, path.empty() ? key : path + "." + key, allow, problems);
  }
}

}  // namespace

Recipe load(const LoadOptions& options) {
  const auto problems = options.problems ? options.problems : std::make_shared<core::Problems>();
  const std::string title = "recipe '" + options.recipe + "'";
  const Place place = find_recipe(options);

  core::Problems composing;
  SearchPath files(place.folders, composing);
  std::vector<Override> overrides = parse_overrides(options.overrides, composing);
  std::set<std::string> overridden;
  for (const Override& given : overrides) overridden.insert(given.key);
  if (options.apply_shortcuts) expand_model(overrides, files);
  const Composition composition =
      compose_defaults(place.path, std::move(overrides), files, composing);
  Recipe out;
  out.tree = Tree::make_map();
  for (const Step& step : composition.steps) {
    merge_at(out.tree, step.package, *step.source->content, composing);
    out.sources.push_back(step.source->file);
  }
  composing.throw_if_any(title);
  out.file = files.load(place.path)->file;
  out.tree->mark = {std::make_shared<const std::string>(out.file.string()), 0};
  out.tree->erase("hydra");  // how Hydra itself runs: no part of the recipe

  const auto free = options.apply_shortcuts ? free_keys() : std::span<const std::string>();
  apply_overrides(out.tree, composition.config_overrides, free, *problems);
  mark_variables(out.tree, composition, out);
  if (options.apply_shortcuts) apply_short_keys(out.tree, overridden, out.variables, *problems);
  if (options.edit) options.edit(out.tree, *problems);

  Interpolator interpolator(out.tree, *problems);
  interpolator.resolve_all();
  out.variables.insert(interpolator.used().begin(), interpolator.used().end());
  if (options.apply_shortcuts) replace_plain_targets(out.tree, *problems);
  report_missing(*out.tree, {}, options.allow_missing, *problems);
  out.notes = problems->notes();
  if (!options.problems) problems->throw_if_any(title);
  return out;
}

std::string to_yaml(const Recipe& recipe) {
  std::string out = "# Resolved recipe: all files, overrides and interpolations in one.\n";
  std::vector<std::string> variables;
  for (const std::string& name : recipe.variables) {
    if (recipe.tree->find_path(name)) variables.push_back(name);
  }
  if (!variables.empty()) out += "# @variables " + core::join(variables) + "\n";
  return out + core::write_yaml(*recipe.tree);
}

std::vector<std::string> list_recipes(const std::vector<fs::path>& config_dirs) {
  std::vector<fs::path> folders = config_dirs;
  for (fs::path& folder : shipped_folders()) folders.push_back(std::move(folder));
  core::Problems unused;
  auto names = SearchPath(std::move(folders), unused).options("");
  std::erase(names, "variable_setup");  // to be included, never to be run
  return names;
}

}  // namespace sgtrain::recipe
