#include "dist/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/signals.h"
#include "dist/internal.h"
#include "support/ranks.h"
#include "support/temp_dir.h"

using namespace sgtrain;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What the workers of these tests do: SGTRAIN_TEST_DO says it, SGTRAIN_TEST_DIR is for pid files.
std::filesystem::path dir() {
  return core::environment("SGTRAIN_TEST_DIR");
}

void leave_pid(int rank) {
  std::ofstream(dir() / ("tmp" + std::to_string(rank))) << getpid() << "\n";
  std::filesystem::rename(dir() / ("tmp" + std::to_string(rank)),
                          dir() / ("pid" + std::to_string(rank)));
}

pid_t pid_of(const std::filesystem::path& folder, int rank) {
  const auto file = folder / ("pid" + std::to_string(rank));
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(5ms);
  return std::stoi(slurp(file));
}

bool gone(pid_t pid, std::chrono::milliseconds within = 3s) {
  const auto end = Clock::now() + within;
  do {
    const char state = core::process_state(pid);
    if (state == '\0' || state == 'Z') return true;
    std::this_thread::sleep_for(5ms);
  } while (Clock::now() < end);
  return false;
}

struct Outcome {
  int code;
  std::string text;  // what the launcher said
  std::chrono::duration<double> took;
};

// Launches in a child process of ours, so that its stderr can be read and signals sent to it.
class Background {
 public:
  Background(const std::string& what, const std::filesystem::path& folder, int ranks = 2) {
    const auto said = folder / "said";
    start_ = Clock::now();
    pid_ = fork();
    if (pid_ == 0) {
      const int file = open(said.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(file, 1);
      dup2(file, 2);
      const int code = support::run_ranks(
          ranks, "rank: act", {{"SGTRAIN_TEST_DO", what}, {"SGTRAIN_TEST_DIR", folder.string()}},
          folder / "logs");
      _exit(code);
    }
    said_ = said;
  }
  ~Background() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  void signal(int number) const { kill(pid_, number); }
  Outcome wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {code, slurp(said_), Clock::now() - start_};
  }

 private:
  pid_t pid_ = -1;
  std::filesystem::path said_;
  Clock::time_point start_;
};

Outcome act(const std::string& what, const std::filesystem::path& folder, int ranks = 2) {
  return Background(what, folder, ranks).wait();
}

void check_nothing_left(const std::filesystem::path& folder, int ranks = 2) {
  for (int r = 0; r < ranks; ++r) CHECK(gone(pid_of(folder, r)));
}

[[noreturn]] void collectives_for_ever(std::chrono::milliseconds timeout) {
  const auto comm = support::join(timeout);
  leave_pid(comm->rank());
  at::Tensor x = at::ones({10});
  for (;;) {
    comm->all_reduce(x);
    std::this_thread::sleep_for(2ms);
  }
}

}  // namespace

// One body for all: it must not end with an assertion, the exit code is the test's matter.
TEST_CASE("rank: act", "[.][rank]") {
  const std::string what = core::environment("SGTRAIN_TEST_DO");
  const dist::World& world = dist::World::current();
  const int rank = world.rank;
  try {
    if (what == "exit") {
      leave_pid(rank);
      std::fprintf(stderr, "rank %d says good-bye\n", rank);
      _exit(rank == 1 ? 7 : 0);
    }
    if (what == "skip") _exit(rank == 0 ? 3 : 0);
    if (what == "throw" && rank == 1) {
      auto comm = support::join();
      leave_pid(rank);
      std::fprintf(stderr, "error: cannot read image 17.jpg\n");
      comm.reset();                        // the others notice at once …
      std::this_thread::sleep_for(300ms);  // … and end before this rank does
      _exit(1);
    }
    if (what == "uncaught" && rank == 1) {
      dist::name_uncaught_errors(world);
      leave_pid(rank);
      // What NCCL's watchdog does at a time-out.
      std::thread([] { throw std::runtime_error("Watchdog caught collective timeout"); }).join();
    }
    if (what == "uncaught") {
      leave_pid(rank);
      for (;;) pause();
    }
    if (what == "grandchild") {
      if (rank == 0) {
        const pid_t child = fork();
        if (child == 0) {
          for (;;) pause();
        }
        std::ofstream(dir() / "grandchild") << child << "\n";
      }
      leave_pid(rank);
      _exit(0);
    }
    if (what == "slow to start" && rank == 0) {  // a signal that it has not asked for kills it
      std::signal(SIGTERM, SIG_DFL);             // not the test framework's handler, which reports
      leave_pid(rank);
      for (;;) pause();
    }
    if (what == "slow to start") {  // … while this one waits for it
      core::signals::install();
      leave_pid(rank);
      const auto comm = support::join();
    }
    if (what == "save" && rank == 0) {  // long after the grace of ranks that save nothing
      core::signals::install();
      dist::report_started();
      leave_pid(rank);
      while (!core::signals::stop_requested()) std::this_thread::sleep_for(2ms);
      std::this_thread::sleep_for(1500ms);
      std::ofstream(dir() / "saved0") << "x";
      _exit(128 + core::signals::stop_signal());
    }
    if (what == "save") dist::report_started();
    if (what == "stop" || what == "save") {
      core::signals::install();
      leave_pid(rank);
      while (!core::signals::stop_requested()) std::this_thread::sleep_for(2ms);
      std::ofstream(dir() / ("saved" + std::to_string(rank))) << "x";
      _exit(128 + core::signals::stop_signal());
    }
    if (what == "stubborn") {
      signal(SIGINT, SIG_IGN);
      signal(SIGTERM, SIG_IGN);
      leave_pid(rank);
      for (;;) pause();
    }
    collectives_for_ever(what == "stall" ? 1s : 60s);
  } catch (const core::Error& error) {
    core::log::error("{}", error.what());
    _exit(1);
  }
}

TEST_CASE("the failing rank is named with its exit code and its last lines") {
  const support::TempDir folder;
  const Outcome outcome = act("exit", folder.path());
  CHECK(outcome.code == 7);
  CHECK_THAT(outcome.text, Catch::Contains("rank 1 of 2 failed") &&
                               Catch::Contains("exit code 7") &&
                               Catch::Contains("rank 1 says good-bye"));
  CHECK(outcome.took < 5s);
  check_nothing_left(folder.path());
}

TEST_CASE("an error that a thread of a backend throws ends the rank with a message, not an abort") {
  const support::TempDir folder;
  const Outcome outcome = act("uncaught", folder.path());
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.text, Catch::Contains("exit code 1") &&
                               Catch::Contains("Watchdog caught collective timeout") &&
                               Catch::Contains("--dist-timeout"));
  check_nothing_left(folder.path());
}

TEST_CASE("all well, and some inputs skipped") {
  const support::TempDir folder;
  CHECK(act("skip", folder.path()).code == 3);
}

TEST_CASE("a killed rank ends the run within seconds and is named") {
  const support::TempDir folder;
  Background run("work", folder.path(), 3);
  for (int r = 0; r < 3; ++r) pid_of(folder.path(), r);
  const auto start = Clock::now();
  kill(pid_of(folder.path(), 1), SIGKILL);
  const Outcome outcome = run.wait();
  CHECK(Clock::now() - start < 5s);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.text,
             Catch::Contains("rank 1 of 3 failed") && Catch::Contains("killed by SIGKILL"));
  check_nothing_left(folder.path(), 3);
}

TEST_CASE("the rank that failed first by itself is named, not those that lost contact") {
  const support::TempDir folder;
  const Outcome outcome = act("throw", folder.path(), 3);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.text,
             Catch::Contains("rank 1 of 3 failed") && Catch::Contains("cannot read image 17.jpg"));
  check_nothing_left(folder.path(), 3);
}

TEST_CASE("a stopped rank is named at the time-out") {
  const support::TempDir folder;
  Background run("stall", folder.path());
  pid_of(folder.path(), 0);
  const pid_t stopped = pid_of(folder.path(), 1);
  kill(stopped, SIGSTOP);
  const auto start = Clock::now();
  const Outcome outcome = run.wait();
  CHECK(Clock::now() - start < 6s);
  CHECK(outcome.code == 1);
  CHECK_THAT(outcome.text,
             Catch::Contains("no answer from rank 1") && Catch::Contains("stopped by a signal"));
  check_nothing_left(folder.path());
}

TEST_CASE("signals reach the workers, which save and leave with 128 + signal") {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const support::TempDir folder;
    Background run("stop", folder.path());
    for (int r = 0; r < 2; ++r) pid_of(folder.path(), r);
    run.signal(number);
    const Outcome outcome = run.wait();
    CHECK(outcome.code == 128 + number);
    CHECK(outcome.text.find("failed") == std::string::npos);
    CHECK(std::filesystem::exists(folder.path() / "saved0"));
    CHECK(std::filesystem::exists(folder.path() / "saved1"));
    check_nothing_left(folder.path());
  }
}

TEST_CASE("before training begins there is nothing to wait for") {
  const support::TempDir folder;
  Background run("slow to start", folder.path());
  for (int r = 0; r < 2; ++r) pid_of(folder.path(), r);
  const auto start = Clock::now();
  run.signal(SIGTERM);
  const Outcome outcome = run.wait();
  CHECK(Clock::now() - start < 5s);
  CHECK(outcome.code == 128 + SIGTERM);
  CHECK(outcome.text.find("failed") == std::string::npos);
  check_nothing_left(folder.path());
}

TEST_CASE("a rank that trains may take its time to save") {
  const support::TempDir folder;
  Background run("save", folder.path());
  for (int r = 0; r < 2; ++r) pid_of(folder.path(), r);
  run.signal(SIGTERM);
  CHECK(run.wait().code == 128 + SIGTERM);
  CHECK(std::filesystem::exists(folder.path() / "saved0"));
  check_nothing_left(folder.path());
}

TEST_CASE("a second SIGINT ends at once, whatever the workers do") {
  const support::TempDir folder;
  Background run("stubborn", folder.path());
  for (int r = 0; r < 2; ++r) pid_of(folder.path(), r);
  run.signal(SIGINT);
  std::this_thread::sleep_for(100ms);
  const auto start = Clock::now();
  run.signal(SIGINT);
  CHECK(run.wait().code == 128 + SIGINT);
  CHECK(Clock::now() - start < 1s);
  check_nothing_left(folder.path());
}

TEST_CASE("workers die with a killed launcher") {
  const support::TempDir folder;
  Background run("work", folder.path());
  for (int r = 0; r < 2; ++r) pid_of(folder.path(), r);
  run.signal(SIGKILL);
  run.wait();
  check_nothing_left(folder.path());
}

TEST_CASE("what workers leave behind is ended with them") {
  const support::TempDir folder;
  CHECK(act("grandchild", folder.path()).code == 0);
  CHECK(gone(std::stoi(slurp(folder.path() / "grandchild"))));
}

TEST_CASE("launches in a row leave no process, no descriptor and no folder") {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  // A temporary folder of its own: other tests run beside this one.
  const support::TempDir temporary;
  const char* old = std::getenv("TMPDIR");
  const std::string restore = old == nullptr ? "/tmp" : old;
  ::setenv("TMPDIR", temporary.path().c_str(), 1);
  const auto before = descriptors();
  for (int i = 0; i < 4; ++i) {
    CHECK(support::run_ranks(2, "rank: act", {{"SGTRAIN_TEST_DO", "skip"}}) == 3);
  }
  CHECK(descriptors() == before);
  CHECK(std::filesystem::is_empty(temporary.path()));
  ::setenv("TMPDIR", restore.c_str(), 1);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child at all
}

TEST_CASE("wrong numbers are the user's mistake") {
  CHECK_THROWS_AS(dist::launch({.processes = 0}), core::InputError);
  CHECK_THROWS_AS(dist::launch({.processes = 1, .nodes = 2, .node_rank = 2}), core::InputError);
  CHECK_THROWS_AS(dist::launch({.processes = 1, .nodes = 2, .node_rank = 0}), core::InputError);
}

TEST_CASE("two nodes on one machine find each other by address and port") {
  // A free port; nothing else on this machine is likely to take it within milliseconds.
  const int port = 20000 + static_cast<int>(getpid() % 20000);
  const auto node = [port](int index) {
    return dist::LaunchOptions{
        .processes = 1,
        .argv = {core::executable_path().string(), "--exact", "rank: collectives"},
        .env = {{"EXPECTED_RANKS", "2"}, {"OMP_NUM_THREADS", "1"}},
        .nodes = 2,
        .node_rank = index,
        .master_addr = "127.0.0.1",
        .master_port = port};
  };
  const pid_t other = fork();
  if (other == 0) _exit(dist::launch(node(1)));
  CHECK(dist::launch(node(0)) == 0);
  int status = 0;
  waitpid(other, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}
