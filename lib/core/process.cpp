#include "core/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/error.h"
#include "core/signals.h"

extern char** environ;

namespace sgtrain::core {
namespace {

ExitStatus to_status(int raw) {
  if (WIFSIGNALED(raw)) return {0, WTERMSIG(raw)};
  return {WEXITSTATUS(raw), 0};
}

// Everything the child needs, made before fork: after it only async-safe calls are allowed.
struct Prepared {
  std::vector<std::string> env_texts;
  std::vector<char*> argv, envp;
  int output = -1, input = -1, error_pipe = -1;
  std::vector<int> keep;  // sorted
  pid_t parent = 0;
  bool own_group = false, die_with_parent = false;
};

std::vector<std::string> merged_environment(const ProcessOptions& options) {
  const auto overridden = [&](std::string_view entry) {
    const auto name = entry.substr(0, entry.find('='));
    return std::any_of(options.env.begin(), options.env.end(),
                       [&](const auto& item) { return item.first == name; }) ||
           std::find(options.unset_env.begin(), options.unset_env.end(), name) !=
               options.unset_env.end();
  };
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e) {
    if (!overridden(*e)) out.emplace_back(*e);
  }
  for (const auto& [name, value] : options.env) out.push_back(name + "=" + value);
  return out;
}

void close_others(const std::vector<int>& keep) {
  unsigned first = 3;
  for (const int fd : keep) {
    if (static_cast<unsigned>(fd) > first) {
      syscall(SYS_close_range, first, static_cast<unsigned>(fd) - 1, 0);
    }
    first = static_cast<unsigned>(fd) + 1;
  }
  syscall(SYS_close_range, first, ~0U, 0);
}

[[noreturn]] void child_main(const Prepared& p) {
  const auto fail = [&p] {
    const int reason = errno;
    // The parent reads the reason; when it is gone nobody needs it.
    [[maybe_unused]] const ssize_t n = ::write(p.error_pipe, &reason, sizeof reason);
    _exit(127);
  };
  if (p.own_group) {
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);  // a background group may still write to the terminal (stty tostop)
  }
  if (p.die_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != p.parent) _exit(127);  // it died before prctl
  }
  if (p.input >= 0 && dup2(p.input, STDIN_FILENO) < 0) fail();
  if (p.output >= 0 && (dup2(p.output, STDOUT_FILENO) < 0 || dup2(p.output, STDERR_FILENO) < 0)) {
    fail();
  }
  for (int fd : p.keep) {
    if (fd != p.error_pipe) fcntl(fd, F_SETFD, 0);  // no close-on-exec
  }
  close_others(p.keep);
  // Handlers of ours are gone after exec, ignored and blocked signals would stay.
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGUSR1, SIGUSR2}) {
    sigaction(signal, &normal, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(p.argv[0], p.argv.data(), p.envp.data());
  fail();
  _exit(127);
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

std::string reason_text() {
  return std::strerror(errno);
}

std::string read_text(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// "VmRSS:  1234 kB" of /proc/self/status, in bytes.
std::size_t status_value(std::string_view key) {
  const std::string text = read_text("/proc/self/status");
  const auto at = text.find(key);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + key.size(), nullptr, 10) * 1024;
}

}  // namespace

std::string ExitStatus::str() const {
  return signal != 0 ? "killed by " + signals::name(signal) : "exit code " + std::to_string(code);
}

Process Process::start(const ProcessOptions& options) {
  if (options.argv.empty()) throw Error("no program to start");
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) throw Error("cannot make a pipe: " + reason_text());
  Fd read_end(pipe_fds[0]), write_end(pipe_fds[1]);
  Fd output(options.output.empty()
                ? -1
                : ::open(options.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!options.output.empty() && output.get() < 0) {
    throw Error("cannot open for output: " + reason_text(), options.output.string());
  }
  Fd input(options.null_input ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);

  Prepared p;
  p.env_texts = merged_environment(options);
  for (const std::string& arg : options.argv) p.argv.push_back(const_cast<char*>(arg.c_str()));
  p.argv.push_back(nullptr);
  for (const std::string& entry : p.env_texts) p.envp.push_back(const_cast<char*>(entry.c_str()));
  p.envp.push_back(nullptr);
  p.output = output.get();
  p.input = input.get();
  p.error_pipe = write_end.get();
  p.keep = options.keep_fds;
  p.keep.push_back(write_end.get());
  std::sort(p.keep.begin(), p.keep.end());
  p.parent = getpid();
  p.own_group = options.own_group;
  p.die_with_parent = options.die_with_parent;

  Process child;
  child.own_group_ = options.own_group;
  child.pid_ = fork();
  if (child.pid_ == 0) child_main(p);
  if (child.pid_ < 0) throw Error("cannot start a process: " + reason_text(), options.argv[0]);
  if (options.own_group) setpgid(child.pid_, child.pid_);  // whoever of the two comes first
  write_end.reset();
  int failure = 0;
  ssize_t got = 0;
  do {
    got = ::read(read_end.get(), &failure, sizeof failure);
  } while (got < 0 && errno == EINTR);
  if (got == sizeof failure) {
    child.wait();
    throw Error(std::string("cannot start: ") + std::strerror(failure), options.argv[0]);
  }
  return child;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), own_group_(other.own_group_), status_(other.status_) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(own_group_, other.own_group_);
  std::swap(status_, other.status_);
  return *this;
}

Process::~Process() {
  if (!running()) return;
  send_signal(SIGKILL, true);
  wait();
}

std::optional<ExitStatus> Process::poll() {
  if (pid_ <= 0 || status_) return status_;
  int raw = 0;
  const pid_t got = waitpid(pid_, &raw, WNOHANG);
  if (got == pid_) status_ = to_status(raw);
  if (got < 0 && errno == ECHILD) status_ = ExitStatus{1, 0};  // somebody else reaped it
  return status_;
}

ExitStatus Process::wait() {
  while (pid_ > 0 && !status_) {
    int raw = 0;
    const pid_t got = waitpid(pid_, &raw, 0);
    if (got == pid_) status_ = to_status(raw);
    if (got < 0 && errno == ECHILD) status_ = ExitStatus{1, 0};
  }
  return status_.value_or(ExitStatus{1, 0});
}

std::optional<ExitStatus> Process::wait_for(std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (!poll() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return status_;
}

void Process::send_signal(int signal, bool group) {
  if (pid_ <= 0) return;
  // A group may outlive its leader, whose number is not used again as long as the group exists.
  if (group && own_group_) {
    ::kill(-pid_, signal);
  } else if (running()) {
    ::kill(pid_, signal);
  }
}

std::filesystem::path executable_path() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::vector<std::string> command_line() {
  const std::string text = read_text("/proc/self/cmdline");
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\0', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> environment_int(std::string_view name) {
  const std::string text = environment(name);
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw InputError(
        "environment variable " + std::string(name) + " is '" + text + "', not a whole number", {},
        "set it to a number or unset it");
  }
  return value;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

std::size_t resident_bytes() {
  return status_value("VmRSS:");
}
std::size_t peak_resident_bytes() {
  return status_value("VmHWM:");
}

std::string tail(const std::filesystem::path& file, int lines) {
  constexpr std::streamoff kMost = 16 << 10;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const std::streamoff size = in.tellg();
  const std::streamoff start = std::max<std::streamoff>(0, size - kMost);
  in.seekg(start);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t at = text.size();
  for (int i = 0; i < lines && at != std::string::npos && at != 0; ++i) {
    at = text.rfind('\n', at - 1);
  }
  if (at != std::string::npos && at != 0) return text.substr(at + 1);
  if (start > 0 && text.find('\n') != std::string::npos) text.erase(0, text.find('\n') + 1);
  return text;
}

char process_state(pid_t pid) {
  const std::string text = read_text(("/proc/" + std::to_string(pid) + "/stat").c_str());
  const auto at = text.rfind(") ");
  return at == std::string::npos || at + 2 >= text.size() ? '\0' : text[at + 2];
}

}  // namespace sgtrain::core
