// Where recipes and their groups are found and read: the recipe's own folder, the user's
// folders, the shipped recipes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

/// One entry of a defaults list, as written.
struct DefaultEntry {
  bool is_group = false;             // "group: name"; else "name" or "group/name"
  std::string path;                  // the group, or the path of a recipe
  std::optional<std::string> name;   // chosen file of a group; nullopt: null (nothing)
  std::vector<std::string> options;  // a list of files of a group
  bool is_options = false;
  std::optional<std::string> package;  // "@package" behind the path
  bool optional = false;
  bool overrides = false;  // keyword `override`
  core::Mark mark;
  bool is_self() const { return !is_group && path == "_self_"; }
};

/// One YAML file of a recipe.
struct Source {
  std::filesystem::path file;
  core::TreePtr content;  // without the defaults list
  std::vector<DefaultEntry> defaults;
  std::optional<std::string> package;  // header "# @package x"
  std::vector<std::string>
      variables;  // header "# @variables a.b, c": keys that interpolations read
};

class SearchPath {
 public:
  /// Mistakes in files go to `problems`. Folders that do not exist are skipped.
  SearchPath(std::vector<std::filesystem::path> folders, core::Problems& problems);

  /// The file "<folder>/<path>.yaml" of the first folder that has it; nullptr when none has.
  /// A file with mistakes is reported once and read as empty.
  std::shared_ptr<const Source> load(const std::string& path);
  bool group_exists(const std::string& group) const;
  /// Names of the files of a group ("" for the top-level recipes), sorted.
  std::vector<std::string> options(const std::string& group) const;
  std::vector<std::string> groups() const;
  const std::vector<std::filesystem::path>& folders() const { return folders_; }

 private:
  std::optional<std::filesystem::path> find(const std::string& path) const;

  std::vector<std::filesystem::path> folders_;
  core::Problems& problems_;
  std::map<std::string, std::shared_ptr<const Source>> loaded_;
};

/// Folders of the shipped recipes that exist here: ../share/sgtrain/recipes beside the
/// executable, then the source tree's recipes/.
std::vector<std::filesystem::path> shipped_folders();

/// "training_hyperparams@pkg" → ("training_hyperparams", "pkg").
std::pair<std::string, std::optional<std::string>> split_package(std::string_view text);

}  // namespace sgtrain::recipe
