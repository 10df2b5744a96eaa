// The lines that tell how an epoch goes and went.
#pragma once

#include <string>

#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

/// " 34% 12/35 [00:41 left, 8.1 images/s, PPYoloELoss/loss=3.21, mem=1.20 GB]"
std::string progress_text(const Run& run, const TrainState& state, int batches,
                          double seconds_per_batch);

/// Seconds of an epoch: all, in steps, and waiting for data.
struct EpochSeconds {
  double all = 0.0, steps = 0.0, data = 0.0;
};
/// Rates of the epoch that has ended, and which stage of the loader took the time.
std::string epoch_text(const Run& run, const TrainState& state, const EpochSeconds& seconds);

}  // namespace sgtrain::train
