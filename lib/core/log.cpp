#include "core/log.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace sgtrain::core {
namespace {

using Clock = std::chrono::steady_clock;
using log::Level;

constexpr std::chrono::milliseconds kRedrawPeriod{100};
constexpr std::string_view kEraseLine = "\r\x1b[K";

struct State {
  std::mutex mutex;
  log::Options options;
  bool stderr_terminal = isatty(STDERR_FILENO) == 1;
  bool stdout_terminal = isatty(STDOUT_FILENO) == 1;
  int file = -1;
  std::string line;  // progress line now on the terminal; empty: none
  const void* line_owner = nullptr;
  std::set<std::string, std::less<>> once;
  std::array<std::atomic<std::uint64_t>, 5> counts{};
};

// Never destroyed: threads may log while the process ends.
State& state() {
  static State* s = new State;
  return *s;
}
std::atomic<int> g_level{static_cast<int>(Level::kInfo)};
// What reaches stderr (g_level also counts the file).
std::atomic<int> g_console_level{static_cast<int>(Level::kInfo)};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::string_view level_name(Level level) {
  constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warning", "error", "silent"};
  return kNames[static_cast<std::size_t>(level)];
}

// Local time with milliseconds and offset, ISO 8601.
std::string timestamp() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 64> date{}, zone{};
  strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &local);
  strftime(zone.data(), zone.size(), "%z", &local);
  return fmt::format("{}.{:03}{}", date.data(), now.tv_nsec / 1'000'000, zone.data());
}

bool wants_color(log::Color color, bool terminal) {
  if (color != log::Color::kAuto) return color == log::Color::kAlways;
  const char* no = std::getenv("NO_COLOR");
  if (no != nullptr && *no != '\0') return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return true;
  const char* term = std::getenv("TERM");
  return terminal && term != nullptr && std::string_view(term) != "dumb";
}

std::string as_json(Level level, std::string_view text, int rank,
                    const std::vector<std::pair<std::string, std::string>>& fields) {
  nlohmann::ordered_json out;
  out["time"] = timestamp();
  out["level"] = level_name(level);
  if (rank >= 0) out["rank"] = rank;
  out["message"] = text;
  for (const auto& [key, value] : fields) {
    auto parsed = nlohmann::ordered_json::parse(value, nullptr, false);
    if (parsed.is_discarded()) parsed = value;  // bare NaN and the like: as a string
    out[key] = std::move(parsed);
  }
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_text(Level level, std::string_view text, int rank, bool color) {
  std::string prefix;
  if (rank >= 0) prefix += fmt::format("[rank {}] ", rank);
  if (level == Level::kWarning) prefix += color ? "\x1b[33mwarning:\x1b[0m " : "warning: ";
  if (level == Level::kError) prefix += color ? "\x1b[31merror:\x1b[0m " : "error: ";
  if (level == Level::kDebug && color) return fmt::format("{}\x1b[2m{}\x1b[0m\n", prefix, text);
  return fmt::format("{}{}\n", prefix, text);
}

// Number of bytes of the longest prefix that fills at most `columns` (code points counted as one).
std::size_t fitting(std::string_view text, int columns) {
  std::size_t i = 0;
  for (int used = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts && ++used > columns) break;
  }
  return i;
}

int terminal_columns(const State& s) {
  if (!s.stderr_terminal) return 0;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The caller holds the mutex.
void emit(State& s, Level level, std::string_view text,
          const std::vector<std::pair<std::string, std::string>>& fields, bool to_terminal) {
  const int rank = s.options.rank;
  s.counts[static_cast<std::size_t>(level)].fetch_add(1, std::memory_order_relaxed);
  if (to_terminal) {
    std::string out;
    if (!s.line.empty()) out += kEraseLine;
    out += s.options.json
               ? as_json(level, text, rank, fields)
               : as_text(level, text, rank, wants_color(s.options.color, s.stderr_terminal));
    out += s.line;
    write_all(STDERR_FILENO, out);  // nowhere to report a failure to
  }
  if (s.file >= 0) {
    write_all(s.file, fmt::format("{} {:7} {}\n", timestamp(), level_name(level), text));
  }
}

}  // namespace

namespace log {

void configure(const Options& options) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  int file = -1;
  if (!options.file.empty()) {
    file = ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
      throw Error("cannot open the log file: " + std::string(std::strerror(errno)),
                  options.file.string(), "check the folder's rights and free space");
    }
  }
  if (s.file >= 0) ::close(s.file);
  s.file = file;
  s.options = options;
  g_level = static_cast<int>(file >= 0 ? Level::kDebug : options.level);
  g_console_level = static_cast<int>(options.level);
}

Options options() {
  const std::lock_guard lock(state().mutex);
  return state().options;
}

Level level_of(bool quiet, bool verbose) {
  return verbose ? Level::kDebug : quiet ? Level::kWarning : Level::kInfo;
}

bool enabled(Level level) {
  return static_cast<int>(level) >= g_level;
}

bool color_stderr() {
  return wants_color(options().color, state().stderr_terminal);
}
bool color_stdout() {
  return wants_color(options().color, state().stdout_terminal);
}
int terminal_width() {
  return terminal_columns(state());
}

void write(Level level, std::string_view text) {
  write_fields(level, text, {});
}

void write_once(Level level, std::string_view text) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().once.emplace(text).second) return;
  }
  write(level, text);
}

void write_fields(Level level, std::string_view text,
                  const std::vector<std::pair<std::string, std::string>>& fields) {
  if (level == Level::kSilent) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  emit(s, level, text, fields, level >= s.options.level);
}

void print(std::string_view text) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  // On one terminal the progress line must make room.
  const bool room = !s.line.empty() && s.stdout_terminal;
  if (room) write_all(STDERR_FILENO, kEraseLine);
  const bool ok = write_all(STDOUT_FILENO, text);
  const int reason = errno;
  if (room) write_all(STDERR_FILENO, s.line);
  if (!ok) throw Error("cannot write to stdout: " + std::string(std::strerror(reason)));
}

void flush() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (s.file >= 0) ::fdatasync(s.file);
}

std::uint64_t count(Level level) {
  return state().counts[static_cast<std::size_t>(level)];
}

}  // namespace log

Progress::Progress(std::string title) : title_(std::move(title)) {
  // The first line elsewhere than on a terminal comes after one period, too.
  const log::Options options = log::options();
  const bool in_place = state().stderr_terminal && !options.json;
  next_ = Clock::now() + (in_place ? std::chrono::milliseconds(0) : options.progress_period);
}

Progress::~Progress() {
  finish();
}

bool Progress::due() const {
  return !finished_ && g_console_level <= static_cast<int>(Level::kInfo) && Clock::now() >= next_;
}

void Progress::update(std::string_view text) {
  if (!due()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::string line = title_.empty() ? std::string(text) : fmt::format("{}: {}", title_, text);
  if (!s.stderr_terminal || s.options.json) {
    next_ = Clock::now() + s.options.progress_period;
    emit(s, Level::kInfo, line, {{"progress", "true"}}, true);
    return;
  }
  next_ = Clock::now() + kRedrawPeriod;
  line.resize(fitting(line, std::max(terminal_columns(s) - 1, 1)));
  s.line = std::move(line);
  s.line_owner = this;
  write_all(STDERR_FILENO, std::string(kEraseLine) + s.line);
}

void Progress::finish(std::string_view text) {
  if (finished_) return;
  finished_ = true;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    if (s.line_owner == this) {
      if (!s.line.empty()) write_all(STDERR_FILENO, kEraseLine);
      s.line.clear();
      s.line_owner = nullptr;
    }
  }
  if (!text.empty()) log::write(Level::kInfo, text);
}

}  // namespace sgtrain::core
