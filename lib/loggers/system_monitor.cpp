#include "loggers/system_monitor.h"

#include <fmt/format.h>

#include <sys/statvfs.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "loggers/gpu_usage.h"

namespace sgtrain::loggers {
namespace {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kMiB = 1024.0 * 1024.0;

void read_cpu(const fs::path& root, MachineCounters& counters) {
  std::ifstream file(root / "proc/stat");
  std::string label;
  file >> label;  // "cpu": all of them
  double ticks = 0.0;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
  for (int i = 0; i < 8 && file >> ticks; ++i) {
    counters.cpu_all += ticks;
    if (i != 3 && i != 4) counters.cpu_busy += ticks;
  }
}

void read_disks(const fs::path& root, MachineCounters& counters) {
  constexpr double kSector = 512.0;
  std::ifstream file(root / "proc/diskstats");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    double skipped = 0.0, read = 0.0, written = 0.0;
    fields >> skipped >> skipped >> name >> skipped >> skipped >> read >> skipped >> skipped >>
        skipped >> written;
    std::error_code none;
    if (!fields || !fs::exists(root / "sys/block" / name, none)) continue;  // a partition
    counters.disk_read += read * kSector / kMiB;
    counters.disk_written += written * kSector / kMiB;
  }
}

void read_network(const fs::path& root, MachineCounters& counters) {
  std::ifstream file(root / "proc/net/dev");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;  // headings
    std::istringstream fields(line.substr(colon + 1));
    double received = 0.0, skipped = 0.0, sent = 0.0;
    fields >> received;
    for (int i = 0; i < 7; ++i) fields >> skipped;
    fields >> sent;
    counters.received += received / kMiB;
    counters.sent += sent / kMiB;
  }
}

MachineCounters read_counters(const fs::path& root) {
  MachineCounters counters;
  read_cpu(root, counters);
  read_disks(root, counters);
  read_network(root, counters);
  return counters;
}

std::optional<double> memory_percent(const fs::path& root) {
  std::ifstream file(root / "proc/meminfo");
  double total = 0.0, available = 0.0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string key;
    double kib = 0.0;
    fields >> key >> kib;
    if (key == "MemTotal:") total = kib;
    if (key == "MemAvailable:") available = kib;
  }
  if (total <= 0.0) return std::nullopt;
  return 100.0 * (total - available) / total;
}

std::optional<double> disk_percent() {
  struct statvfs disk {};
  if (::statvfs("/", &disk) != 0) return std::nullopt;
  const auto used = static_cast<double>(disk.f_blocks - disk.f_bfree);
  const double all = used + static_cast<double>(disk.f_bavail);  // for ordinary users
  if (all <= 0.0) return std::nullopt;
  return 100.0 * used / all;
}

/// Means of what is sampled, by tag and in order of appearance.
class Means {
 public:
  void add(const std::string& tag, double value) {
    for (auto& [own, sum, count] : entries_) {
      if (own != tag) continue;
      sum += value;
      ++count;
      return;
    }
    entries_.push_back({tag, value, 1});
  }
  void write_to(Scalars& out) const {
    for (const auto& [tag, sum, count] : entries_) out.emplace_back(tag, sum / count);
  }

 private:
  struct Entry {
    std::string tag;
    double sum = 0.0;
    int count = 0;
  };
  std::vector<Entry> entries_;
};

void sample(const fs::path& root, Means& means) {
  if (const auto percent = disk_percent()) means.add("System/disk.usage_percent", *percent);
  if (const auto percent = memory_percent(root)) means.add("System/memory.usage_percent", *percent);
  int device = 0;
  for (const GpuUsage& gpu : gpu_usage()) {
    const auto add = [&](const char* name, double value) {
      means.add(fmt::format("System/gpu.{}/device_{}", name, device), value);
    };
    add("usage_percent", gpu.busy);
    add("memory_usage_percent", gpu.memory_busy);
    add("memory_allocated_percent", gpu.memory_allocated);
    ++device;
  }
}

}  // namespace

SystemMonitor::SystemMonitor(Write write, const Options& options)
    : write_(std::move(write)),
      options_(options),
      thread_([this, before = read_counters(options.root)] { run(before); }) {}

SystemMonitor::~SystemMonitor() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void SystemMonitor::run(MachineCounters before) {
  std::unique_lock lock(mutex_);
  std::int64_t step = 0;
  auto started = Clock::now();
  do {  // once, however short the run
    Means means;
    do {
      sample(options_.root, means);
      wake_.wait_for(lock, options_.sample, [this] { return ends_; });
    } while (!ends_ && Clock::now() - started < options_.period);
    const MachineCounters after = read_counters(options_.root);
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - started).count();
    Scalars scalars;
    means.write_to(scalars);
    if (const double ticks = after.cpu_all - before.cpu_all; ticks > 0.0)
      scalars.emplace_back("System/cpu.usage_percent",
                           100.0 * (after.cpu_busy - before.cpu_busy) / ticks);
    const auto rate = [&](const char* tag, double growth) {
      scalars.emplace_back(tag, growth / seconds);
    };
    rate("System/disk.io_read_mbs", after.disk_read - before.disk_read);
    rate("System/disk.io_write_mbs", after.disk_written - before.disk_written);
    rate("System/network.network_sent_mbs", after.sent - before.sent);
    rate("System/network.network_recv_mbs", after.received - before.received);
    write_(scalars, step++);
    before = after;
    started = now;
  } while (!ends_);
}

}  // namespace sgtrain::loggers
