// Names under which a run's values are logged.
#pragma once

#include <string>
#include <vector>

#include "train/run.h"

namespace sgtrain::train {

/// Of validation: the loss's components, then every metric's values.
std::vector<std::string> logged_names(const Run& run);

/// The logged name that `wanted` means: exact, else the same fuzzy key, else the component of a
/// loss. @throws core::InputError naming `key` and listing the names, with the nearest one
std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names,
                                const std::string& key = "metric_to_watch");

}  // namespace sgtrain::train
