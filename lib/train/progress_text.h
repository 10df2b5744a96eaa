// The lines that tell how an epoch goes and went.
#pragma once

#include <string>

#include "loggers/logger.h"
#include "train/epoch_summary.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

/// Seconds of the batches of an epoch, since it began or was resumed.
struct EpochSeconds {
  double all = 0.0, steps = 0.0, data = 0.0;  // data: waiting for the loader
  int batches = 0;

  double iteration() const { return batches > 0 ? (steps + data) / batches : 0.0; }
  double waiting() const { return batches > 0 ? data / batches : 0.0; }
};

/// " 34% 12/35 [00:41 left, 8.1 images/s, iter_time=0.988, data_time=0.002, PPYoloELoss/loss=3.21,
/// mem=1.20 GB]"; times are means over the batches so far, in seconds.
std::string progress_text(const Run& run, const TrainState& state, int batches,
                          const EpochSeconds& seconds);

/// What the exchange of gradients cost, where it was measured (several processes on CPUs); else
/// empty.
std::string traffic_text(const dist::Reducer::Traffic& traffic);

/// Logs the summary of the epoch, with --json-logs every value as a field of its own, then its
/// rates and which stage of the loader took the time.
void show_epoch(const Run& run, const TrainState& state, const EpochSummary& summary,
                const EpochSeconds& seconds, const loggers::Scalars& scalars);

}  // namespace sgtrain::train
