// What a user reads before the first step: processes, batch sizes, learning rate, parameters.
#pragma once

#include <string>

#include "train/run.h"

namespace sgtrain::train {

std::string banner(Run& run, int batches_per_epoch);

}  // namespace sgtrain::train
