// What `sgtrain check` finds beyond the recipe's own text: devices, weights, data.
#pragma once

#include <string>
#include <vector>

#include "train/run_plan.h"

namespace sgtrain::train {

/// The weights that a run begins with must be on this machine.
/// @throws core::InputError with every place that was looked at
void require_weights(const RunPlan& plan);

/// Run folders must be possible where they belong. @throws core::InputError
void require_run_root(const RunPlan& plan);

/// Everything that would stop the run: GPUs that are not there, missing weights, and with `data`
/// what the data sets hold, whose reports are printed. All splits are looked at, whatever the first
/// one has. One text for each mistake; empty: none.
std::vector<std::string> mistakes_of(const RunPlan& plan, bool data);

}  // namespace sgtrain::train
