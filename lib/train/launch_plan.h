// Where a run computes: device, number of processes, time-out.
#pragma once

#include <optional>
#include <string>

#include "core/node.h"

namespace sgtrain::train {

struct LaunchPlan {
  std::string device = "auto";  // resolve_device's text for this run
  int processes = 1;            // on GPUs of this machine; -1: one per GPU that is there
  int cpu_processes = 1;        // where there is no GPU, or none is wanted
  bool gpus_demanded = false;   // by a flag: fewer GPUs than asked for is an error, not a warning
  double timeout_seconds = 1800;
  std::string compression = "none";  // of gradients on the wire: none, fp16, bf16
  std::string interface;             // of Gloo's network; empty: found out
  int check_every = 0;               // debug: compare the ranks every so many optimizer steps
  /// Learning rates times (global batch size / base), or its square root. Base null: one process's
  /// batch, so that linear multiplies by the number of processes.
  std::string lr_scaling = "none";  // none, linear, sqrt
  std::optional<int> lr_scaling_base_batch;

  /// Reads device, multi_gpu, num_gpus, processes and dist{…} of a recipe's top level.
  static LaunchPlan from(core::Node& root);
};

}  // namespace sgtrain::train
