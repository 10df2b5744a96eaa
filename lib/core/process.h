// Child processes that cannot outlive us, and facts about this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::core {

/// How a process ended.
struct ExitStatus {
  int code = 0;    // exit code, when signal == 0
  int signal = 0;  // the signal that killed it, else 0
  bool ok() const { return code == 0 && signal == 0; }
  /// What a shell would show: code, or 128 + signal.
  int shell_code() const { return signal != 0 ? 128 + signal : code; }
  std::string str() const;  // "exit code 3", "killed by SIGKILL"
};

struct ProcessOptions {
  std::vector<std::string> argv{};  // argv[0] is the program; looked up in PATH when it has no '/'
  std::vector<std::pair<std::string, std::string>> env{};  // set on top of our environment
  std::vector<std::string> unset_env{};
  std::filesystem::path output{};  // stdout and stderr are appended here; empty: inherited
  bool null_input = false;         // stdin is /dev/null
  std::vector<int> keep_fds{};  // stay open under the same number; all others from 3 on are closed
  bool own_group = true;        // own process group: a terminal's Ctrl-C reaches only us
  bool die_with_parent = true;  // SIGKILL when the thread that started it (or we) dies
};

/// A child by fork and exec. Not copyable; the destructor kills (SIGKILL, its whole group) and
/// reaps what still runs.
class Process {
 public:
  Process() = default;
  /// Throws core::Error when the program cannot be started (not found, no rights, no memory):
  /// failures of exec are reported here, not by the child.
  static Process start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !status_; }
  /// The status once it ended, nullopt while it runs.
  std::optional<ExitStatus> poll();
  ExitStatus wait();
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds timeout);
  /// To the process (or to its group); nothing when it ended.
  void send_signal(int signal, bool group = false);

 private:
  pid_t pid_ = -1;
  bool own_group_ = false;
  std::optional<ExitStatus> status_;
};

std::filesystem::path executable_path();         // of this process
std::vector<std::string> command_line();         // of this process, argv[0] included
std::string environment(std::string_view name);  // value, empty when unset
/// The whole value as a number; nullopt when unset or empty; InputError when it is none.
std::optional<std::int64_t> environment_int(std::string_view name);
std::string host_name();

std::size_t resident_bytes();       // memory in use now (RSS)
std::size_t peak_resident_bytes();  // most so far
/// Last lines of a text file, at most `lines` and 16 KiB; empty when it cannot be read.
std::string tail(const std::filesystem::path& file, int lines);
/// State letter of /proc/<pid>/stat ('R', 'S', 'T' stopped, 'D' disk …), 0 when it is gone.
char process_state(pid_t pid);

}  // namespace sgtrain::core
