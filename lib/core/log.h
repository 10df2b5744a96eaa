// What the program says. Messages and the progress line go to stderr, results (tables, JSON that
// the user asked for) to stdout, so that `sgtrain … > file` holds results only. Thread-safe.
//
//   core::log::info("epoch {}: loss {:.4f}", epoch, loss);
//   core::log::result("{}\n", table);          // stdout, as it is
//   core::Progress progress("train epoch 3");
//   progress.update("34% 12/35 loss 1.23");    // in place on a terminal, else a line now and then
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::core::log {

enum class Level : int { kDebug, kInfo, kWarning, kError, kSilent };
enum class Color { kAuto, kNever, kAlways };  // auto: a terminal, and NO_COLOR is not set

struct Options {
  Level level = Level::kInfo;    // -q: kWarning, -v: kDebug
  bool json = false;             // --json-logs: one JSON object a line, on stderr
  Color color = Color::kAuto;    // CLICOLOR_FORCE counts as kAlways
  int rank = -1;                 // shown as "[rank 1]" (JSON: "rank") when >= 0
  std::filesystem::path file{};  // every message (from debug on) is appended here too, with time
  std::chrono::milliseconds progress_period{30'000};  // where stderr is no terminal
};

/// Before the first thread that logs, or later: takes effect at once. Throws core::Error when the
/// file cannot be opened.
void configure(const Options& options);
Options options();
Level level_of(bool quiet, bool verbose);  // -q and -v; both: verbose wins
bool enabled(Level level);
/// stderr (resp. stdout) shows colours.
bool color_stderr();
bool color_stdout();
/// Width of the terminal on stderr in columns; 0 where it is none.
int terminal_width();

/// One message, whole lines, without level prefix for info. Never throws.
void write(Level level, std::string_view text);
/// Same, at most once per process for equal text.
void write_once(Level level, std::string_view text);
/// With extra fields for --json-logs (values are JSON texts); the text form ignores them.
void write_fields(Level level, std::string_view text,
                  const std::vector<std::pair<std::string, std::string>>& fields);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kDebug))
    write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning_once(fmt::format_string<Args...> format, Args&&... args) {
  write_once(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

/// Text to stdout, exactly as given; -q does not silence it. Throws core::Error when stdout cannot
/// be written (full disk); a closed pipe ends the process as usual (SIGPIPE).
void print(std::string_view text);
template <class... Args>
void result(fmt::format_string<Args...> format, Args&&... args) {
  print(fmt::format(format, std::forward<Args>(args)...));
}

/// Everything buffered is out.
void flush();

/// Numbers of warnings and errors written so far (summaries, tests).
std::uint64_t count(Level level);

}  // namespace sgtrain::core::log

namespace sgtrain::core {

/// One line of progress. On a terminal it is redrawn in place (at most every 100 ms, cut to the
/// width) and other messages appear above it; elsewhere the newest text is logged every
/// `progress_period`; with --json-logs as messages with "progress": true. Only one is shown at a
/// time: the newest. -q hides it.
class Progress {
 public:
  /// @param title put before each text, "train epoch 3: "
  explicit Progress(std::string title);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap when it is not yet time to draw: ask `due()` first where the text costs something.
  void update(std::string_view text);
  bool due() const;
  /// Erases the line and logs `text` (info) in its place; empty: nothing.
  void finish(std::string_view text = {});

 private:
  std::string title_;
  std::chrono::steady_clock::time_point next_;
  bool finished_ = false;
};

}  // namespace sgtrain::core
