// Writes a tree as YAML that reads back as the same tree: texts that would read as numbers,
// booleans, nulls or interpolations are quoted or escaped, floats keep every bit.
#pragma once

#include <string>
#include <string_view>

#include "core/node.h"

namespace sgtrain::core {

/// Block style, two blanks of indentation, short lists of scalars in one line; ends with a newline.
/// Read by this program, OmegaConf and PyYAML with the same types.
std::string write_yaml(const Tree& tree);

/// One scalar, list or map in one line (flow style), for messages and command-line hints.
std::string write_yaml_inline(const Tree& tree);

}  // namespace sgtrain::core
