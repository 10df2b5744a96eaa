#include "dist/launcher.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/process.h"
#include "core/signals.h"
#include "dist/internal.h"

namespace sgtrain::dist {
namespace {

using Clock = std::chrono::steady_clock;
using core::ExitStatus;
using std::chrono::milliseconds;

constexpr int kTailLines = 20;
constexpr char kStarted = 'S', kBlamesPeer = 'P';  // what workers tell
// Ranks that only lost contact to the one that failed end within this time after it, and it does
// after them when it fails slowly.
constexpr milliseconds kSettle{1'000};

std::string reason() {
  return std::strerror(errno);
}

/// A file descriptor that closes.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Listener {
  Fd socket;
  int port = 0;
};

// The socket of rank 0's store: bound here, so that no other job can take the port in between.
// One machine: a free port of the loopback interface. Several: the given one on all interfaces.
Listener listen_for_store(const LaunchOptions& options) {
  const bool several = options.nodes > 1;
  Listener out;
  out.socket = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ::setsockopt(out.socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(several ? INADDR_ANY : INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(options.master_port));
  socklen_t size = sizeof address;
  if (::bind(out.socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(out.socket.get(), 4096) != 0 ||
      ::getsockname(out.socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw core::Error(fmt::format("cannot listen on port {}: {}", options.master_port, reason()),
                      {}, "choose another --master-port, or leave it out on a single machine");
  }
  out.port = ntohs(address.sin_port);
  return out;
}

/// A temporary folder when none was given.
class LogDir {
 public:
  explicit LogDir(const std::filesystem::path& wanted) : path_(wanted) {
    if (!path_.empty()) {
      std::filesystem::create_directories(path_);
      return;
    }
    std::string name = (std::filesystem::temp_directory_path() / "sgtrain_logs_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw core::Error("cannot make a folder for logs: " + reason(), name);
    }
    path_ = name;
    temporary_ = true;
  }
  ~LogDir() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  LogDir(const LogDir&) = delete;
  LogDir& operator=(const LogDir&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  bool temporary_ = false;
};

struct Worker {
  int rank = 0;
  core::Process process;
  Fd status;  // readable: kStarted, kBlamesPeer
  std::filesystem::path log;
  std::optional<ExitStatus> ended;
  bool started = false, blames_peer = false;

  bool failed() const {
    return ended && !ended->ok() && ended->code != static_cast<int>(core::ExitCode::kSomeSkipped);
  }
};

/// Signals of this process arrive by waiting for them, not by handlers, while it lives.
class SignalWait {
 public:
  SignalWait() {
    signal(SIGCHLD, SIG_DFL);  // where it was ignored, the kernel would reap our workers
    sigemptyset(&set_);
    for (const int s : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
      struct sigaction now {};
      sigaction(s, nullptr, &now);
      if (s == SIGHUP && now.sa_handler == SIG_IGN) continue;  // nohup
      sigaddset(&set_, s);
    }
    pthread_sigmask(SIG_BLOCK, &set_, &old_);
  }
  ~SignalWait() {
    // What came too late must not kill us after the mask is gone.
    while (wait(milliseconds(0)) != 0) {
    }
    pthread_sigmask(SIG_SETMASK, &old_, nullptr);
  }
  /// The next signal, 0 when none came in time.
  int wait(milliseconds timeout) const {
    const timespec t{timeout.count() / 1000, timeout.count() % 1000 * 1'000'000};
    const int signal = sigtimedwait(&set_, nullptr, &t);
    return signal > 0 ? signal : 0;
  }

 private:
  sigset_t set_, old_;
};

/// One launched run, from start to exit code.
class Launch {
 public:
  explicit Launch(const LaunchOptions& options) : options_(options), logs_(options.log_dir) {}

  int run() {
    // One that came before this object took signals over.
    if (core::signals::stop_requested()) return 128 + core::signals::stop_signal();
    start_all();
    while (!all_ended()) {
      handle(signals_.wait(next_wait()));
      collect();
      decide();
    }
    // Processes that workers started and left behind.
    for (Worker& w : workers_) w.process.send_signal(SIGKILL, true);
    return finish();
  }

 private:
  void start_all() {
    const int first = options_.node_rank * options_.processes;
    const int world = options_.nodes * options_.processes;
    std::optional<Listener> listener;
    if (options_.node_rank == 0) listener = listen_for_store(options_);
    const std::string address = options_.nodes > 1 ? options_.master_addr : "127.0.0.1";
    const int port = listener ? listener->port : options_.master_port;
    for (int local = 0; local < options_.processes; ++local) {
      Worker w;
      w.rank = first + local;
      w.log = logs_.path() / fmt::format("rank{}.log", w.rank);
      start(w,
            {{"RANK", std::to_string(w.rank)},
             {"LOCAL_RANK", std::to_string(local)},
             {"WORLD_SIZE", std::to_string(world)},
             {"LOCAL_WORLD_SIZE", std::to_string(options_.processes)},
             {"MASTER_ADDR", address},
             {"MASTER_PORT", std::to_string(port)}},
            w.rank == 0 ? listener->socket.get() : -1);
      workers_.push_back(std::move(w));
    }
  }

  void start(Worker& w, std::vector<std::pair<std::string, std::string>> env, int listen_fd) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
      throw core::Error("cannot make a pipe: " + reason());
    w.status = Fd(fds[0]);
    const Fd write_end(fds[1]);
    core::ProcessOptions p;
    p.argv = options_.argv.empty() ? core::command_line() : options_.argv;
    if (options_.argv.empty()) p.argv[0] = core::executable_path().string();
    p.env = std::move(env);
    p.env.insert(p.env.end(), options_.env.begin(), options_.env.end());
    p.env.emplace_back(kStatusFdVariable, std::to_string(write_end.get()));
    p.keep_fds.push_back(write_end.get());
    if (listen_fd >= 0) {
      p.env.emplace_back(kListenFdVariable, std::to_string(listen_fd));
      p.keep_fds.push_back(listen_fd);
    }
    p.null_input = true;
    if (w.rank != 0) p.output = w.log;
    w.process = core::Process::start(p);
  }

  bool all_ended() const {
    return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.ended; });
  }
  bool any_failed() const {
    return std::any_of(workers_.begin(), workers_.end(),
                       [](const Worker& w) { return w.failed(); });
  }

  milliseconds next_wait() const {
    if (!deadline_) return milliseconds(1'000);
    const auto left = std::chrono::duration_cast<milliseconds>(*deadline_ - Clock::now());
    return std::clamp(left, milliseconds(1), milliseconds(1'000));
  }

  void send_all(int signal, bool group = false) {
    for (Worker& w : workers_) w.process.send_signal(signal, group);
  }

  void handle(int signal) {
    switch (signal) {
      case 0:
      case SIGCHLD:
        return;
      case SIGTSTP:  // Ctrl-Z stops the whole run, fg goes on with it
        send_all(SIGSTOP);
        raise(SIGSTOP);
        [[fallthrough]];
      case SIGCONT:
        send_all(SIGCONT);
        return;
      default:
        break;
    }
    const bool again = stop_signal_ != 0;
    if (!again) stop_signal_ = signal;
    if (again && (signal == SIGINT || signal == SIGTERM)) {
      core::log::warning("second {}: ending all processes at once", core::signals::name(signal));
      kill_all();
      return;
    }
    send_all(signal);
    if (deadline_) return;
    for (Worker& w : workers_) read_marks(w);
    const bool saves =
        std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.started; });
    set_phase(Phase::kStopping, saves ? options_.stop_grace : options_.fail_grace);
  }

  static void read_marks(Worker& w) {
    for (char mark = 0; ::read(w.status.get(), &mark, 1) == 1;) {
      w.started = w.started || mark == kStarted;
      w.blames_peer = w.blames_peer || mark == kBlamesPeer;
    }
  }

  void collect() {
    for (Worker& w : workers_) {
      if (w.ended) continue;
      w.ended = w.process.poll();
      if (!w.ended) continue;
      read_marks(w);
      // After a signal that asked for it, ending with 128 + signal is the right way to end.
      const bool asked = stop_signal_ != 0 && w.ended->shell_code() == 128 + stop_signal_;
      if (w.failed() && !asked && !was_killed(w)) order_.push_back(w.rank);
    }
  }

  // settle: one failed, see who else does; failing: the rest were asked to end.
  enum class Phase { kRunning, kStopping, kSettling, kFailing, kKilled };

  void set_phase(Phase phase, milliseconds within) {
    phase_ = phase;
    deadline_ = Clock::now() + within;
  }

  void decide() {
    if (all_ended()) return;
    if (phase_ <= Phase::kStopping && !order_.empty()) set_phase(Phase::kSettling, kSettle);
    if (!deadline_ || Clock::now() < *deadline_) return;
    if (phase_ == Phase::kSettling) {
      note_silent();
      for (Worker& w : workers_) {
        if (w.process.running()) killed_.push_back(w.rank);
      }
      send_all(SIGTERM);
      set_phase(Phase::kFailing, options_.fail_grace);
    } else {
      if (phase_ == Phase::kStopping) {
        core::log::warning("not all processes ended in time after {}: killing them",
                           core::signals::name(stop_signal_));
      }
      kill_all();
    }
  }

  // All that failed blame a peer: then it is one that still runs and does not answer.
  void note_silent() {
    if (std::any_of(workers_.begin(), workers_.end(),
                    [](const Worker& w) { return w.failed() && !w.blames_peer; })) {
      return;
    }
    for (const Worker& w : workers_) {
      if (!w.process.running()) continue;
      const char state = core::process_state(w.process.pid());
      silent_.push_back(fmt::format("rank {} (process {}{})", w.rank, w.process.pid(),
                                    state == 'T'   ? ", stopped by a signal"
                                    : state == 'D' ? ", waiting for a disk or network file system"
                                                   : ""));
    }
  }

  void kill_all() {
    for (Worker& w : workers_) {
      if (!w.process.running()) continue;
      if (std::find(killed_.begin(), killed_.end(), w.rank) == killed_.end()) {
        killed_.push_back(w.rank);
      }
      w.process.send_signal(SIGKILL, true);
    }
    set_phase(Phase::kKilled, milliseconds(100));
  }

  Worker& worker(int rank) { return workers_[static_cast<std::size_t>(rank - workers_[0].rank)]; }

  bool was_killed(const Worker& w) const {
    return std::find(killed_.begin(), killed_.end(), w.rank) != killed_.end();
  }

  // The one to name: killed by a signal, else failed by itself, else the first.
  Worker* culprit() {
    for (const int wanted : {0, 1, 2}) {
      for (const int rank : order_) {
        Worker& w = worker(rank);
        if (wanted == 0 && w.ended->signal == 0) continue;
        if (wanted == 1 && w.blames_peer) continue;
        return &w;
      }
    }
    return nullptr;
  }

  int finish() {
    if (phase_ == Phase::kKilled && stop_signal_ != 0 && order_.empty()) return 128 + stop_signal_;
    Worker* failed = culprit();
    // After a signal, ranks that lost contact to those it ended sooner are no failure.
    const bool lost = failed != nullptr && failed->blames_peer && failed->ended->signal == 0;
    if (stop_signal_ != 0 && lost) return 128 + stop_signal_;
    if (failed == nullptr) {
      int code = stop_signal_ != 0 && any_failed() ? 128 + stop_signal_ : 0;
      for (const Worker& w : workers_) code = std::max(code, w.ended->shell_code());
      return code;
    }
    report(*failed);
    // 128 + signal would say that the run ended as asked, with everything saved.
    return failed->ended->signal != 0 ? static_cast<int>(core::ExitCode::kFailed)
                                      : failed->ended->code;
  }

  // Empty when this run wrote nothing there: a log of an earlier run would mislead.
  std::string last_lines(const std::filesystem::path& log) const {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(log, error);
    if (error || written < started_) return {};
    return core::tail(log, kTailLines);
  }

  void report(const Worker& w) {
    std::string text;
    if (!silent_.empty() && w.blames_peer) {
      text = fmt::format("no answer from {} on {}", fmt::join(silent_, ", "), core::host_name());
      text += fmt::format("\nrank {} gave up: {}", w.rank, w.ended->str());
    } else {
      text = fmt::format("rank {} of {} failed on {}: {}", w.rank,
                         options_.nodes * options_.processes, core::host_name(), w.ended->str());
      if (w.ended->signal == SIGKILL) {
        text += " (by hand, or out of memory: see the kernel's log)";
      }
    }
    if (w.blames_peer) {
      for (const Worker& other : workers_) {
        if (other.ended && other.ended->ok()) {
          text += fmt::format("\nrank {} had ended without an error before", other.rank);
        }
      }
    }
    if (const std::string lines = last_lines(w.log); !lines.empty()) {
      text += fmt::format("\nlast lines of {}:\n{}", w.log.string(), lines);
    } else if (w.rank == 0) {
      text += "\nits messages are above";
    }
    core::log::error("{}", text);
  }

  const LaunchOptions& options_;
  const std::filesystem::file_time_type started_ = std::filesystem::file_time_type::clock::now();
  LogDir logs_;
  SignalWait signals_;
  std::vector<Worker> workers_;
  std::vector<int> order_;   // ranks in the order in which they failed
  std::vector<int> killed_;  // by us
  std::vector<std::string> silent_;
  int stop_signal_ = 0;
  Phase phase_ = Phase::kRunning;
  std::optional<Clock::time_point> deadline_;
};

void tell_launcher(char mark) {
  const int fd = World::current().status_fd;
  if (fd < 0) return;
  // When the launcher is gone, nobody needs it.
  [[maybe_unused]] const ssize_t n = ::write(fd, &mark, 1);
}

void check(const LaunchOptions& options) {
  if (options.processes < 1) {
    throw core::InputError(fmt::format("number of processes is {}", options.processes), {},
                           "give at least 1");
  }
  if (options.nodes < 1 || options.node_rank < 0 || options.node_rank >= options.nodes) {
    throw core::InputError(
        fmt::format("node rank {} of {} nodes", options.node_rank, options.nodes), {},
        "--node-rank counts from 0 to --nnodes - 1");
  }
  if (options.nodes > 1 && (options.master_addr.empty() || options.master_port <= 0)) {
    throw core::InputError("several machines need rank 0's address", {},
                           "give --master-addr and --master-port, the same on all machines");
  }
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  return Launch(options).run();
}

void report_started() {
  tell_launcher(kStarted);
}

void report_peer_failure() {
  tell_launcher(kBlamesPeer);
}

}  // namespace sgtrain::dist
