#include "loggers/system_monitor.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <map>

#include "support/temp_dir.h"

using namespace sgtrain;
using loggers::SystemMonitor;

namespace {

using Values = std::map<std::string, double>;

/// proc and sys of a machine, `k` times the same growth after its start.
void write_machine(const std::filesystem::path& root, int k) {
  const auto write = [&](const char* name, const std::string& text) {
    const auto path = root / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  const auto n = [&](long first, long growth) { return std::to_string(first + k * growth); };
  // 30 + 20 of 200 ticks busy: a quarter.
  write("proc/stat", "cpu  " + n(500, 30) + " 0 " + n(100, 20) + " " + n(9000, 140) + " " +
                         n(7, 10) + " 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  write("proc/meminfo", "MemTotal:  4000 kB\nMemFree:  100 kB\nMemAvailable:  1000 kB\n");
  // 8192 and 2048 sectors: 4 and 1 MiB; the partition counts once.
  const std::string disk = " 11 12 " + n(800, 8192) + " 13 14 15 " + n(90, 2048) + " 16 0 17 18\n";
  write("proc/diskstats", "8 0 sda" + disk + "8 1 sda1" + disk);
  std::filesystem::create_directories(root / "sys/block/sda");
  write("proc/net/dev", "Inter-| Receive\n face |bytes\n  eth0:" + n(5, 3 << 20) +
                            " 1 0 0 0 0 0 0 " + n(5, 2 << 20) + " 1 0 0 0 0 0 0\n");
}

/// What the monitor writes in the end, when the machine changed meanwhile.
Values last_of(const std::filesystem::path& root) {
  Values out;
  std::vector<std::int64_t> steps;
  {
    const SystemMonitor monitor(
        [&](const loggers::Scalars& scalars, std::int64_t step) {
          steps.push_back(step);
          for (const auto& [tag, value] : scalars) out[tag] = value;
        },
        {.period = std::chrono::hours(1), .sample = std::chrono::milliseconds(1), .root = root});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time for rates
    write_machine(root, 1);
  }
  CHECK(steps == std::vector<std::int64_t>{0});
  return out;
}

}  // namespace

TEST_CASE("use of the machine is computed from proc", "[loggers]") {
  const support::TempDir dir;
  write_machine(dir.path(), 0);
  Values values = last_of(dir.path());
  CHECK(values["System/cpu.usage_percent"] == Approx(25.0));
  CHECK(values["System/memory.usage_percent"] == Approx(75.0));
  CHECK(values["System/disk.usage_percent"] > 0.0);
  CHECK(values["System/disk.usage_percent"] <= 100.0);
  // Rates: 4 and 1 MiB read and written, 2 and 3 MiB sent and received in the same time.
  const double unit = values["System/disk.io_write_mbs"];
  CHECK(unit > 0.0);
  CHECK(values["System/disk.io_read_mbs"] == Approx(4.0 * unit));
  CHECK(values["System/network.network_sent_mbs"] == Approx(2.0 * unit));
  CHECK(values["System/network.network_recv_mbs"] == Approx(3.0 * unit));
}

TEST_CASE("this machine is monitored period by period", "[loggers]") {
  std::vector<std::int64_t> steps;
  {
    const SystemMonitor monitor(
        [&](const loggers::Scalars& scalars, std::int64_t step) {
          steps.push_back(step);
          for (const auto& [tag, value] : scalars) {
            INFO(tag);
            CHECK(value >= 0.0);
            if (tag.find("percent") != std::string::npos) CHECK(value <= 100.0);
          }
          CHECK(scalars.size() >= 6);
        },
        {.period = std::chrono::milliseconds(10),
         .sample = std::chrono::milliseconds(2),
         .root = "/"});
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  REQUIRE(steps.size() >= 2);
  for (std::size_t i = 0; i < steps.size(); ++i) CHECK(steps[i] == static_cast<std::int64_t>(i));
}
