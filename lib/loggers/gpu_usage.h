// What NVIDIA's management library says about the GPUs, where it is installed.
#pragma once

#include <vector>

namespace sgtrain::loggers {

/// In percent: time in which kernels ran, time in which memory was accessed, memory in use.
struct GpuUsage {
  double busy = 0.0, memory_busy = 0.0, memory_allocated = 0.0;
};

/// One entry per GPU; empty without GPUs or the library.
std::vector<GpuUsage> gpu_usage();

}  // namespace sgtrain::loggers
