#include "core/signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::core::signals {
namespace {

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

constexpr std::array<std::pair<std::string_view, int>, 15> kNames{{{"HUP", SIGHUP},
                                                                   {"INT", SIGINT},
                                                                   {"QUIT", SIGQUIT},
                                                                   {"ILL", SIGILL},
                                                                   {"ABRT", SIGABRT},
                                                                   {"BUS", SIGBUS},
                                                                   {"FPE", SIGFPE},
                                                                   {"KILL", SIGKILL},
                                                                   {"USR1", SIGUSR1},
                                                                   {"SEGV", SIGSEGV},
                                                                   {"USR2", SIGUSR2},
                                                                   {"PIPE", SIGPIPE},
                                                                   {"ALRM", SIGALRM},
                                                                   {"TERM", SIGTERM},
                                                                   {"CONT", SIGCONT}}};

// The second one means "now": nothing but async-safe calls here.
void handle(int signal) {
  int expected = 0;
  if (g_signal.compare_exchange_strong(expected, signal)) return;
  if (signal == SIGINT || signal == SIGTERM) _exit(128 + signal);
}

void catch_signal(int signal) {
  struct sigaction old {};
  sigaction(signal, nullptr, &old);
  if (signal == SIGHUP && old.sa_handler == SIG_IGN) return;  // nohup
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;  // file and socket calls go on; polling loops see the flag
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void install() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) catch_signal(signal);
}

void install_preempt(std::string_view name) {
  if (lower(name) != "none") catch_signal(number(name));
}

bool stop_requested() {
  return g_signal.load(std::memory_order_relaxed) != 0;
}
int stop_signal() {
  return g_signal.load(std::memory_order_relaxed);
}
void request_stop(int signal) {
  int expected = 0;
  g_signal.compare_exchange_strong(expected, signal);
}
void reset() {
  g_signal = 0;
}

void throw_if_stopped(std::string_view what) {
  if (stop_requested()) throw Interrupted(stop_signal(), what);
}

std::string name(int signal) {
  for (const auto& [known, number] : kNames) {
    if (number == signal) return "SIG" + std::string(known);
  }
  return "signal " + std::to_string(signal);
}

int number(std::string_view name) {
  std::string key(trim(name));
  for (char& c : key) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (key.starts_with("SIG")) key.erase(0, 3);
  for (const auto& [known, number] : kNames) {
    if (known == key && number != SIGKILL) return number;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), value);
  if (error == std::errc() && end == key.data() + key.size() && value > 0 && value < NSIG &&
      value != SIGKILL && value != SIGSTOP) {
    return value;
  }
  throw InputError("unknown signal '" + std::string(name) + "'", {},
                   "name one that can be caught, such as USR2, TERM or 12");
}

}  // namespace sgtrain::core::signals
