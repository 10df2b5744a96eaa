// Use of the machine while a run goes on: SuperGradients' `monitor_system`, with its tags and
// units.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "loggers/logger.h"

namespace sgtrain::loggers {

/// Numbers of the machine that only grow (proc(5)).
struct MachineCounters {
  double cpu_busy = 0.0, cpu_all = 0.0;        // ticks of all CPUs
  double disk_read = 0.0, disk_written = 0.0;  // MiB
  double sent = 0.0, received = 0.0;           // MiB
};

/// Writes every `period`, and once at its end: System/cpu.usage_percent, memory.usage_percent,
/// disk.usage_percent (of /), disk.io_{read,write}_mbs, network.network_{sent,recv}_mbs (MiB per
/// second), and per NVIDIA GPU gpu.usage_percent, gpu.memory_usage_percent (share of time) and
/// gpu.memory_allocated_percent. A thread of its own; `write` is called on it.
class SystemMonitor {
 public:
  using Write = std::function<void(const Scalars& scalars, std::int64_t step)>;
  struct Options {
    std::chrono::milliseconds period{30'000}, sample{500};
    std::filesystem::path root = "/";  // where proc/ and sys/ are
  };
  SystemMonitor(Write write, const Options& options);
  explicit SystemMonitor(Write write) : SystemMonitor(std::move(write), Options{}) {}
  ~SystemMonitor();
  SystemMonitor(const SystemMonitor&) = delete;
  SystemMonitor& operator=(const SystemMonitor&) = delete;

 private:
  void run(MachineCounters before);

  Write write_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace sgtrain::loggers
