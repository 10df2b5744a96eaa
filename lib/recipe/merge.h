// OmegaConf's merge: maps are merged key by key, lists and scalars are replaced whole, ??? never
// replaces a value, a key keeps the place where it first stood.
#pragma once

#include <string>
#include <vector>

#include "core/node.h"

namespace sgtrain::recipe {

/// Merges `source` into the map at `path` of `root` (made when absent). A map merged into an
/// interpolation of a map replaces it by a copy of what it names, as OmegaConf does.
/// `source` is copied. A list that meets a map (or the reverse) is a mistake.
void merge_at(const core::TreePtr& root, const std::vector<std::string>& path,
              const core::Tree& source, core::Problems& problems);

/// Value at a path of keys and list indices; nullptr when absent.
core::TreePtr value_at(const core::TreePtr& root, const std::vector<std::string>& path);

}  // namespace sgtrain::recipe
