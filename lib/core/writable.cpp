#include "core/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace sgtrain::core {
namespace fs = std::filesystem;

fs::path nearest_existing(const fs::path& path) {
  std::error_code error;
  fs::path there = fs::absolute(path, error).lexically_normal();
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  return there;
}

bool can_make_folder(const fs::path& folder) {
  const fs::path there = nearest_existing(folder);
  std::error_code error;
  return fs::is_directory(there, error) && ::access(there.c_str(), W_OK | X_OK) == 0;
}

void check_can_make_folder(const fs::path& folder) {
  const fs::path whole = (fs::current_path() / folder).lexically_normal();
  if (can_make_folder(whole)) return;
  const std::string reason = std::strerror(errno);
  const fs::path there = nearest_existing(whole);
  std::error_code error;
  throw InputError(fs::is_directory(there, error)
                       ? "cannot write into " + there.string() + ": " + reason
                       : "cannot write here: " + there.string() + " is a file, not a folder",
                   whole.string(), "name another place");
}

void check_can_write_file(const fs::path& file) {
  std::error_code error;
  if (file.empty() || fs::is_directory(file, error))
    throw InputError("this is a folder, not a file", file.string(), "name a file");
  check_can_make_folder(fs::absolute(file).lexically_normal().parent_path());
}

}  // namespace sgtrain::core
