// Signals that end a run. The first SIGINT, SIGTERM, SIGHUP or preemption signal only sets a flag
// that long work polls, so that the run can finish its step, save and leave with 128 + signal;
// a second SIGINT or SIGTERM ends the process at once.
#pragma once

#include <string>
#include <string_view>

namespace sgtrain::core::signals {

/// Installs the handlers (once; later calls do nothing). SIGHUP stays ignored where it was ignored
/// (nohup). Worker processes of a launched run call it too: their parent forwards signals.
void install();
/// Adds the preemption signal (`--preempt-signal`, default USR2): same meaning as SIGTERM.
/// Throws InputError for unknown names. "none" adds nothing.
void install_preempt(std::string_view name);

/// True once a signal asked for the end. Async-safe, cheap: poll it in every loop that can be long.
bool stop_requested();
/// The signal that asked, 0 when none.
int stop_signal();
/// Asks for the end as if `signal` had come (tests, max time).
void request_stop(int signal);
/// Forgets the request (tests, multirun).
void reset();
/// Throws core::Interrupted when the end was asked for: for work with nothing to save.
void throw_if_stopped(std::string_view what);

/// "SIGTERM", or "signal 45".
std::string name(int signal);
/// Number of "USR2", "SIGUSR2", "usr2" or "12"; throws InputError.
int number(std::string_view name);

}  // namespace sgtrain::core::signals
