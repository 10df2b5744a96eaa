// `--no-exec`: whether recipes may bring code of their own into this run (plug-ins) or start
// programs (ShellCallback). Set once, before a recipe is read.
#pragma once

#include <string_view>

#include "core/node.h"

namespace sgtrain::train {

void forbid_exec();
bool exec_allowed();
/// Adds a problem at `node` when it is forbidden. False then.
bool check_exec(core::Node& node, std::string_view what);

}  // namespace sgtrain::train
