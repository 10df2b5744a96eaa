// Command-line overrides: `a.b=c`, `+a=c` (add), `++a=c` (add or set), `~a`, `~a=v` (delete),
// group choices `arch_params=yolo_nas_m_arch_params`, with Hydra's grammar for values.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

struct Override {
  enum class Kind { kSet, kAdd, kForce, kDelete };
  Kind kind = Kind::kSet;
  std::string text;                    // as typed
  std::string key;                     // dotted; or a group
  std::optional<std::string> package;  // of "group@package"
  core::TreePtr value;                 // nullptr: `~key` without a value
  bool optional = false;               // a choice of a group that need not be in a defaults list
};

/// Parses one override; mistakes go to `problems` (then nullopt).
std::optional<Override> parse_override(std::string_view text, core::Problems& problems);

/// Applies `overrides` to the composed tree in order. An unknown key is a mistake with the
/// nearest right one, unless it begins with one of `free_keys` (keys that need no `+`).
void apply_overrides(const core::TreePtr& root, std::span<const Override> overrides,
                     std::span<const std::string> free_keys, core::Problems& problems);

/// The runs of a sweep (`-m lr=0.1,0.2 model=a,b`): every combination, the last key fastest.
/// Overrides without alternatives are in each. Throws InputError for more than 10,000 runs.
std::vector<std::vector<std::string>> sweep(std::span<const std::string> overrides);

/// The mark of values that overrides give.
core::Mark command_line_mark();

}  // namespace sgtrain::recipe
