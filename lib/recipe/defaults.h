// Hydra's defaults lists (version base 1.2): which files make up a recipe, in which order, and
// under which key ("package") the content of each is put.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/node.h"
#include "recipe/overrides.h"
#include "recipe/search_path.h"

namespace sgtrain::recipe {

/// One step of the composition, in order of merging.
struct Step {
  std::string path;                  // of the file, without extension
  std::vector<std::string> package;  // keys below which its content is merged; empty: the top
  std::shared_ptr<const Source> source;
};

struct Composition {
  std::vector<Step> steps;
  std::vector<Override> config_overrides;  // those that choose no group
};

/// Walks the defaults lists from the recipe at `path` (as SearchPath names it). Overrides that
/// name a group choose its file. Mistakes (a file that is not there, a choice that matches
/// nothing, a recipe that includes itself, …) go to `problems`.
Composition compose_defaults(const std::string& path, std::vector<Override> overrides,
                             SearchPath& files, core::Problems& problems);

}  // namespace sgtrain::recipe
