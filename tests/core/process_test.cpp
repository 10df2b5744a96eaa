#include "core/process.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/error.h"
#include "core/signals.h"
#include "support/temp_dir.h"

using namespace sgtrain;
using core::Process;
using namespace std::chrono_literals;

namespace {

std::string slurp(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool gone(pid_t pid, std::chrono::milliseconds within = 2s) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (std::chrono::steady_clock::now() < end) {
    const char state = core::process_state(pid);
    if (state == '\0' || state == 'Z') return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

}  // namespace

TEST_CASE("a child's output, environment and exit code") {
  const support::TempDir dir;
  const auto file = dir.path() / "out.txt";
  setenv("SGTRAIN_TEST_GONE", "x", 1);
  Process child =
      Process::start({.argv = {"sh", "-c", "echo $A; echo [$SGTRAIN_TEST_GONE] >&2; exit 7"},
                      .env = {{"A", "b c"}},
                      .unset_env = {"SGTRAIN_TEST_GONE"},
                      .output = file});
  const auto status = child.wait();
  CHECK(status.code == 7);
  CHECK(status.shell_code() == 7);
  CHECK(status.str() == "exit code 7");
  CHECK(slurp(file) == "b c\n[]\n");
}

TEST_CASE("a program that is not there is our error") {
  CHECK_THROWS_WITH(Process::start({.argv = {"/no/such/program"}}),
                    Catch::Contains("/no/such/program") && Catch::Contains("No such file"));
}

TEST_CASE("a killed child is named by its signal, and nothing of its group is left") {
  const support::TempDir dir;
  const auto file = dir.path() / "pid";
  Process child =
      Process::start({.argv = {"sh", "-c", "sleep 100 & echo $!; wait"}, .output = file});
  while (slurp(file).find('\n') == std::string::npos) std::this_thread::sleep_for(5ms);
  const pid_t grandchild = std::stoi(slurp(file));
  CHECK_FALSE(child.wait_for(10ms));
  CHECK_FALSE(gone(grandchild, 10ms));
  child.send_signal(SIGKILL, true);
  CHECK(child.wait().str() == "killed by SIGKILL");
  CHECK(child.wait().shell_code() == 128 + SIGKILL);
  CHECK(gone(grandchild));
}

TEST_CASE("children end with the object and with their parent") {
  pid_t pid = 0;
  {
    Process child = Process::start({.argv = {"sleep", "100"}});
    pid = child.pid();
    CHECK(core::process_state(pid) != '\0');
  }
  CHECK(gone(pid));

  // A parent that is killed: its child, started from a thread of a process that dies.
  const support::TempDir dir;
  const pid_t parent = fork();
  if (parent == 0) {
    Process child = Process::start({.argv = {"sleep", "100"}});
    std::ofstream(dir.path() / "pid") << child.pid() << std::endl;
    for (;;) pause();
  }
  while (slurp(dir.path() / "pid").find('\n') == std::string::npos)
    std::this_thread::sleep_for(5ms);
  pid = std::stoi(slurp(dir.path() / "pid"));
  CHECK(core::process_state(pid) != '\0');
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(gone(pid));
}

TEST_CASE("facts about this process") {
  CHECK(core::executable_path().filename() == "test_core");
  CHECK(core::command_line().at(0).find("test_core") != std::string::npos);
  CHECK(core::resident_bytes() > 1'000'000);
  CHECK(core::peak_resident_bytes() >= core::resident_bytes() / 2);
  CHECK(core::process_state(getpid()) == 'R');
  setenv("SGTRAIN_TEST_INT", "12", 1);
  CHECK(core::environment_int("SGTRAIN_TEST_INT") == 12);
  setenv("SGTRAIN_TEST_INT", "12x", 1);
  CHECK_THROWS_AS(core::environment_int("SGTRAIN_TEST_INT"), core::InputError);
  unsetenv("SGTRAIN_TEST_INT");
  CHECK_FALSE(core::environment_int("SGTRAIN_TEST_INT"));
}

TEST_CASE("the tail of a file") {
  const support::TempDir dir;
  const auto file = dir.path() / "f";
  CHECK(core::tail(file, 3).empty());
  std::ofstream(file) << "a\nb\nc\nd\n";
  CHECK(core::tail(file, 2) == "c\nd");
  CHECK(core::tail(file, 9) == "a\nb\nc\nd");
  std::ofstream(file) << std::string(100'000, 'x') << "\nlast\n";
  CHECK(core::tail(file, 1) == "last");
  CHECK(core::tail(file, 5) == "last");
}

TEST_CASE("signals ask for the end, a second one ends at once") {
  namespace signals = core::signals;
  signals::reset();
  CHECK_FALSE(signals::stop_requested());
  signals::request_stop(SIGTERM);
  signals::request_stop(SIGINT);  // the first one counts
  CHECK(signals::stop_signal() == SIGTERM);
  CHECK_THROWS_AS(signals::throw_if_stopped("stopped"), core::Interrupted);
  signals::reset();

  const pid_t child = fork();
  if (child == 0) {
    signals::install();
    signals::install_preempt("USR2");
    raise(SIGUSR2);
    raise(SIGHUP);
    if (signals::stop_signal() != SIGUSR2) _exit(1);
    raise(SIGINT);
    _exit(2);  // not reached
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGINT);

  CHECK(signals::name(SIGKILL) == "SIGKILL");
  CHECK(signals::number("usr2") == SIGUSR2);
  CHECK(signals::number("SIGTERM") == SIGTERM);
  CHECK(signals::number("12") == 12);
  CHECK_THROWS_AS(signals::number("KILL"), core::InputError);
  CHECK_THROWS_AS(signals::number("nonsense"), core::InputError);
}
