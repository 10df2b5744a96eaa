#include "train/run_dir.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <system_error>

#include "core/error.h"

namespace sgtrain::train {
namespace fs = std::filesystem;
namespace {

std::string new_run_name() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
      1000000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("RUN_{:%Y%m%d_%H%M%S}_{:06}", local, micros);
}

bool is_run_with(const fs::directory_entry& entry, const std::string& checkpoint) {
  std::error_code ignored;
  return entry.is_directory(ignored) && !entry.is_symlink(ignored) &&
         entry.path().filename().string().starts_with("RUN_") &&
         fs::exists(entry.path() / checkpoint, ignored);
}

/// Run names sort by time.
std::optional<fs::path> newest_in(const fs::path& folder, const std::string& checkpoint) {
  std::error_code error;
  std::optional<fs::path> newest;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_run_with(entry, checkpoint) &&
        (!newest || entry.path().filename() > newest->filename())) {
      newest = entry.path();
    }
  }
  return newest;
}

}  // namespace

void check_name(const std::string& key, const std::string& name) {
  const bool bad =
      name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (bad) {
    throw core::InputError("'" + name + "' is no name for a file or folder", key,
                           "use a name without '/', '..' and control characters");
  }
}

fs::path create_run_dir(const fs::path& root, const std::string& experiment) {
  check_name("experiment_name", experiment);
  const fs::path folder = root / experiment;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw core::InputError("cannot make the folder for checkpoints: " + error.message(),
                           folder.string(), "choose another one with ckpt_root_dir=…");
  }
  fs::path run;
  do {  // two runs in one microsecond would share a name
    run = folder / new_run_name();
  } while (!fs::create_directory(run, error) && !error);
  if (error) throw core::InputError("cannot make the run folder: " + error.message(), run.string());

  // A link is replaced in one step, so that `latest` always points somewhere.
  const fs::path link = folder / "latest";
  const fs::path fresh = folder / (".latest." + run.filename().string());
  fs::create_directory_symlink(run.filename(), fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) fs::remove(fresh, error);  // file systems without links: the run goes on without it
  return run;
}

std::optional<fs::path> latest_run_dir(const fs::path& root, const std::string& experiment,
                                       const std::string& checkpoint) {
  return newest_in(root / experiment, checkpoint);
}

std::optional<fs::path> latest_run_anywhere(const fs::path& root, const std::string& checkpoint) {
  std::error_code error;
  std::optional<fs::path> newest;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const auto run = newest_in(entry.path(), checkpoint);
    if (run && (!newest || run->filename() > newest->filename())) newest = run;
  }
  return newest;
}

}  // namespace sgtrain::train
