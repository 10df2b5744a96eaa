// One command, many processes. The parent starts itself N times (fork and exec, before it has any
// thread or CUDA context) with the variables that torchrun sets too, waits, and names what failed.
//
//   dist::World world = dist::World::current();            // single, or joined (torchrun, Slurm,
//   …) if (!world.joined && processes > 1) return dist::launch({.processes = processes, …});
//   dist::start_logging(world, run_dir / "logs");
//   auto comm = dist::make_communicator(world, device, {.timeout = …});
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sgtrain::dist {

/// This process's place in its run.
struct World {
  int rank = 0;
  int local_rank = 0;  // on this machine
  int world_size = 1;
  int local_world_size = 1;
  std::string master_addr = "127.0.0.1";  // where rank 0's store listens
  int master_port = 0;
  bool joined = false;        // one process of several, or started by a launcher
  std::string launched_by{};  // "sgtrain", "torchrun", "Slurm", "environment"; empty: nobody
  int status_fd = -1;         // under our launcher: see report_peer_failure()
  int listen_fd = -1;         // rank 0 under our launcher: the listening socket of the store

  bool is_main() const { return rank == 0; }
  /// From RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, else from Slurm's variables of
  /// a step (srun), else a single process. Throws InputError when they contradict each other.
  static World from_environment();
  /// from_environment(), read once per process. The variables of a rank are then removed, so that
  /// programs this one starts (callbacks, a nested sgtrain) do not take themselves for it.
  static const World& current();
};

/// Rank 0 (or the only process). Right before a communicator exists and after it is gone.
bool is_main();
/// Runs `f` on rank 0 only.
template <class F>
void on_main(F&& f) {
  if (is_main()) std::forward<F>(f)();
}

struct LaunchOptions {
  int processes = 1;                // on this machine
  std::vector<std::string> argv{};  // of the workers; empty: our own command line
  std::vector<std::pair<std::string, std::string>> env{};  // extra variables for the workers
  /// rank<k>.log of the ranks other than 0 (their stdout and stderr), created when missing. Empty:
  /// a temporary folder that is removed at the end.
  std::filesystem::path log_dir{};
  int nodes = 1;  // several machines: --nnodes, --node-rank, --master-addr, --master-port
  int node_rank = 0;
  std::string master_addr{};
  int master_port = 0;
  std::chrono::milliseconds stop_grace{60'000};  // to save after a forwarded signal, then SIGKILL
  std::chrono::milliseconds fail_grace{2'000};   // with nothing to save, then SIGKILL
};

/// Starts the workers, forwards signals, waits. Returns the exit code of the run: 0 (or 3, see
/// core::ExitCode) when all ended well; 128 + signal after a forwarded signal; else that of the
/// rank that failed first, which is named on stderr with the last lines of its log. No worker
/// and no process of theirs is left when it returns. A second SIGINT or SIGTERM kills at once.
int launch(const LaunchOptions& options);

/// Messages of this rank: rank 0 also into rank0.log below `log_dir`; other ranks only into
/// rank<k>.log (where the launcher has not yet sent them there), errors to stderr too.
void start_logging(const World& world, const std::filesystem::path& log_dir);

/// Tells our launcher that from now on there is something to save: a signal gives this process
/// stop_grace to end. Before, and in work that saves nothing, all ranks are gone within fail_grace
/// (one of them may wait for another that a signal has ended). Called when training begins.
void report_started();

/// Tells our launcher that this process fails because of another one (lost connection, time-out),
/// so that it names the other. Called by communicators.
void report_peer_failure();

}  // namespace sgtrain::dist
