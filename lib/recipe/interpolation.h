// Replaces `${...}` in a composed recipe, as OmegaConf resolves it: absolute paths `${a.b}`,
// relative ones (`${.x}` is a sibling, `${..x}` one level up), paths that hold interpolations,
// resolvers `${name:arguments}`, several pieces in one text, `\${` for a literal `${`.
// A text that is one interpolation takes over the value with its type; else pieces become text.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

class Interpolator {
 public:
  enum class Fault { kMissing, kUnknownKey, kCycle, kResolver, kSyntax, kTooLarge };

  /// Works on `root` in place. Mistakes go to `problems`; a value that depends on a missing one
  /// (???) or on another mistake is left as text with `unresolved` set, without a further problem.
  Interpolator(core::TreePtr root, core::Problems& problems);

  void resolve_all();
  /// The value at a dotted path, resolved; nullptr when it is absent or cannot be resolved.
  core::TreePtr resolve_at(const std::string& dotted);

  /// Values that could not be resolved, by dotted path.
  const std::map<std::string, Fault>& faults() const { return faults_; }
  /// Dotted paths that interpolations read. These keys (and the maps around them) are marked as
  /// read.
  const std::set<std::string>& used() const { return used_; }

 private:
  using Path = std::vector<std::string>;
  struct Failure;
  struct Target;
  enum class State { kVisiting, kDone };

  void resolve(const core::TreePtr& node, Path& path);
  void resolve_text(const core::TreePtr& node, Path& path);
  core::TreePtr evaluate(std::string_view text, const core::Tree& node, const Path& path);
  core::TreePtr interpolation(std::string_view inner, const core::Tree& node, const Path& path);
  core::TreePtr call(std::string_view name, std::string_view arguments, const core::Tree& node,
                     const Path& path);
  core::TreePtr tree_call(std::string_view name, const std::vector<core::TreePtr>& arguments,
                          const core::Tree& node, const Path& path);
  void resolve_argument(const core::TreePtr& argument, const core::Tree& node, const Path& path);
  core::TreePtr reference(const std::string& text, const core::Tree& node, const Path& path);
  Target select(const std::string& text, const Path& path);
  core::TreePtr copy(const core::Tree& tree);
  void mark_used(const Path& path);
  std::string unknown_key(const Path& keys, std::size_t failed, const core::Tree& where,
                          const core::Tree& node, const Path& path, const std::string& text) const;

  core::TreePtr root_;
  core::Problems& problems_;
  std::unordered_map<const core::Tree*, State> states_;
  std::vector<std::string> chain_;  // dotted paths being resolved, for cycles
  std::map<std::string, Fault> faults_;
  std::set<std::string> used_;
  std::size_t copied_ = 0;
  std::size_t depth_ = 0;
};

/// True when an interpolation anywhere in the tree names the top-level key: then it is a variable
/// of the recipe.
bool is_variable(const core::Tree& tree, const std::string& key);

}  // namespace sgtrain::recipe
