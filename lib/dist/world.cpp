// Where this process stands: torchrun's variables, Slurm's, or alone.
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/process.h"
#include "dist/internal.h"
#include "dist/launcher.h"

namespace sgtrain::dist {
namespace {

using core::environment;

[[noreturn]] void contradiction(const std::string& what) {
  throw core::InputError(what, {},
                         "start one process by hand without RANK and WORLD_SIZE, or let torchrun, "
                         "srun or --processes set all of RANK, LOCAL_RANK, WORLD_SIZE, "
                         "MASTER_ADDR and MASTER_PORT");
}

int variable(std::string_view name, std::int64_t low, std::int64_t high,
             std::optional<int> fallback = std::nullopt) {
  const auto value = core::environment_int(name);
  if (!value) {
    if (fallback) return *fallback;
    contradiction(fmt::format("environment variable {} is not set", name));
  }
  if (*value < low || *value > high) {
    contradiction(
        fmt::format("environment variable {} is {}, not in {}..{}", name, *value, low, high));
  }
  return static_cast<int>(*value);
}

constexpr int kMostRanks = 1 << 20;

// A descriptor that our launcher handed over; -1 when there is none. Processes that this one
// starts must not keep it open (nor take its number, left in the environment, for theirs).
int inherited(const char* name) {
  const int fd = variable(name, -1, 1 << 20, -1);
  return fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

World from_torchrun() {
  World w;
  w.world_size = variable("WORLD_SIZE", 1, kMostRanks);
  w.rank = variable("RANK", 0, w.world_size - 1);
  w.master_addr = environment("MASTER_ADDR");
  // Without a place on the machine: all ranks are on this one where the store is, as one sets them
  // by hand; else each has a machine of its own (the pods of a PyTorchJob).
  const bool own_machine =
      !w.master_addr.empty() && !is_loopback(w.master_addr) && environment("LOCAL_RANK").empty();
  w.local_world_size =
      variable("LOCAL_WORLD_SIZE", 1, w.world_size, own_machine ? 1 : w.world_size);
  w.local_rank = variable("LOCAL_RANK", 0, w.world_size - 1, w.rank % w.local_world_size);
  w.master_port = variable("MASTER_PORT", 1, 65535, w.world_size == 1 ? 0 : -1);
  if (w.master_port < 0) contradiction("environment variable MASTER_PORT is not set");
  if (w.master_addr.empty()) {
    if (w.world_size > 1) contradiction("environment variable MASTER_ADDR is not set");
    w.master_addr = "127.0.0.1";
  }
  w.joined = true;
  w.launched_by = !environment(kStatusFdVariable).empty()       ? "sgtrain"
                  : !environment("TORCHELASTIC_RUN_ID").empty() ? "torchrun"
                                                                : "environment";
  w.listen_fd = inherited(kListenFdVariable);
  w.status_fd = inherited(kStatusFdVariable);
  if (w.launched_by == "sgtrain" && w.status_fd < 0) {
    contradiction(
        fmt::format("this process was started inside rank {} of another sgtrain run, "
                    "whose place it cannot take",
                    w.rank));
  }
  return w;
}

// First host of a node list such as "gpu[07-09,12],big1".
std::string first_host(const std::string& list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto end = list.find_first_of(",-]", bracket);
  const auto close = list.find(']', bracket);
  if (end == std::string::npos || close == std::string::npos) return {};
  std::string host = list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
  const auto rest = list.find(',', close);
  return host + list.substr(close + 1, rest == std::string::npos ? rest : rest - close - 1);
}

World from_slurm() {
  World w;
  w.world_size = variable("SLURM_STEP_NUM_TASKS", 1, kMostRanks);
  w.rank = variable("SLURM_PROCID", 0, w.world_size - 1);
  w.local_rank = variable("SLURM_LOCALID", 0, w.world_size - 1);
  const int nodes = variable("SLURM_STEP_NUM_NODES", 1, kMostRanks, 1);
  w.local_world_size = std::max(1, w.world_size / nodes);
  w.master_addr = environment("MASTER_ADDR");
  if (w.master_addr.empty()) w.master_addr = first_host(environment("SLURM_STEP_NODELIST"));
  if (w.master_addr.empty()) {
    contradiction(
        "cannot tell rank 0's machine: neither MASTER_ADDR nor SLURM_STEP_NODELIST is set");
  }
  // One port for each job and step of a machine, so that jobs that share a machine do not meet.
  const int job = variable("SLURM_JOB_ID", 0, INT32_MAX, 0);
  const int step = variable("SLURM_STEP_ID", 0, INT32_MAX, 0);
  w.master_port = variable("MASTER_PORT", 1, 65535, 20000 + (job * 7 + step) % 30000);
  w.joined = true;
  w.launched_by = "Slurm";
  return w;
}

void hide_from_children() {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR",
        "MASTER_PORT", "SLURM_PROCID", kListenFdVariable, kStatusFdVariable}) {
    unsetenv(name);
  }
}

}  // namespace

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

World World::from_environment() {
  if (!environment("WORLD_SIZE").empty() || !environment("RANK").empty()) return from_torchrun();
  // Only processes that srun started have the variables of a step; a batch script has none.
  if (core::environment_int("SLURM_STEP_NUM_TASKS").value_or(1) > 1 &&
      !environment("SLURM_PROCID").empty()) {
    return from_slurm();
  }
  return {};
}

const World& World::current() {
  static const World world = [] {
    const World found = from_environment();
    if (found.joined) hide_from_children();
    return found;
  }();
  return world;
}

bool is_main() {
  return World::current().is_main();
}

void start_logging(const World& world, const std::filesystem::path& log_dir) {
  core::log::Options options = core::log::options();
  // Our launcher's own files take their stdout and stderr, and are gone after the run.
  const bool redirected = world.launched_by == "sgtrain" && !world.is_main();
  if (world.joined && world.world_size > 1) options.rank = world.is_main() ? -1 : world.rank;
  std::filesystem::create_directories(log_dir);
  options.file = log_dir / fmt::format("rank{}.log", world.rank);
  if (!redirected && !world.is_main()) options.level = core::log::Level::kError;
  core::log::configure(options);
}

}  // namespace sgtrain::dist
