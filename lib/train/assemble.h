// From a plan to a run: builds every part, checks the data against the model, loads first weights.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "dist/communicator.h"
#include "train/run.h"
#include "train/run_plan.h"

namespace sgtrain::train {

/// Where this process computes.
struct Place {
  at::Device device = at::kCPU;
  std::unique_ptr<dist::Communicator> comm;
  /// Makes the run folder on rank 0, once recipe and data have proved good. Empty result: nothing
  /// is written. Not called on other ranks; they are told the path.
  std::function<std::filesystem::path()> make_run_dir;
};

/// Collective. Parts that are cheap and may be wrong come first: loss, metrics and
/// metric_to_watch before data; data before the model.
/// @throws core::InputError
std::unique_ptr<Run> assemble(const RunPlan& plan, Place place);

/// The training length that schedules see.
optim::RunLength run_length(const TrainingParams& params, int batches_per_epoch);

}  // namespace sgtrain::train
