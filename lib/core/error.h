// The one exception family of sgtrain: what went wrong, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace sgtrain::core {

/// Process exit codes (the table users see is in README.md).
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,        // failed at run time
  kBadInput = 2,      // the user's input is wrong
  kSomeSkipped = 3,   // done, but some inputs were skipped (each was named)
  kSignalBase = 128,  // + signal number, after saving
};

/// Base of every error that sgtrain throws. `what()` is the whole message, ready to print.
class Error : public std::runtime_error {
 public:
  /// @param what  what is wrong, one sentence without a final dot
  /// @param where file:line, image name or key; may be empty
  /// @param fix   what to do about it; may be empty
  explicit Error(std::string_view what, std::string_view where = {}, std::string_view fix = {})
      : Error(ExitCode::kFailed, what, where, fix) {}

  ExitCode exit_code() const { return code_; }

 protected:
  Error(ExitCode code, std::string_view what, std::string_view where, std::string_view fix);

 private:
  ExitCode code_;
};

/// The user's input (recipe, file, option) is wrong: exit code 2, found before any long work
/// starts.
class InputError final : public Error {
 public:
  explicit InputError(std::string_view what, std::string_view where = {}, std::string_view fix = {})
      : Error(ExitCode::kBadInput, what, where, fix) {}
};

/// A signal ended the run after everything was saved: exit code 128 + signal.
class Interrupted final : public Error {
 public:
  explicit Interrupted(int signal, std::string_view what);
};

}  // namespace sgtrain::core
