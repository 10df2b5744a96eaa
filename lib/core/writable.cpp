#include "core/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "core/error.h"

namespace sgtrain::core {
namespace fs = std::filesystem;

void check_can_make_folder(const fs::path& folder) {
  const fs::path whole = fs::path(fs::current_path() / folder).lexically_normal();
  std::error_code error;
  fs::path there = whole;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error)) {
    throw InputError("cannot write here: " + there.string() + " is a file, not a folder",
                     whole.string(), "name another place");
  }
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    throw InputError("cannot write into " + there.string() + ": " + std::strerror(errno),
                     whole.string(), "name another place");
  }
}

void check_can_write_file(const fs::path& file) {
  std::error_code error;
  if (file.empty() || fs::is_directory(file, error))
    throw InputError("this is a folder, not a file", file.string(), "name a file");
  check_can_make_folder(fs::path(fs::current_path() / file).lexically_normal().parent_path());
}

}  // namespace sgtrain::core
