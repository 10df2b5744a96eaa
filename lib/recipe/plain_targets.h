// `_target_` maps that stand for plain values. SuperGradients' recipes build a few lists and enum
// values with Python functions; here they become the values, so that no component needs to know
// them. All other `_target_` maps are left as they are: components are found by the last name.
#pragma once

#include "core/node.h"

namespace sgtrain::recipe {

/// `numpy.arange` {start, stop, step} → list of numbers; `….empty_list` → []; `….Phase` {value} →
/// text.
void replace_plain_targets(const core::TreePtr& root, core::Problems& problems);

}  // namespace sgtrain::recipe
