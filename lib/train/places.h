// How many processes this machine starts for a run, and on which devices.
#pragma once

#include <string>

#include "train/launch_plan.h"

namespace sgtrain::train {

struct Places {
  int processes = 1;
  std::string device;  // of one process: "cpu", or GPU ids by local rank
};

/// @throws core::InputError when GPUs are demanded that are not there; a recipe's wish for them is
/// a warning
Places decide_places(const LaunchPlan& plan);

}  // namespace sgtrain::train
