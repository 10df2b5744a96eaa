#include "data/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::data {
namespace {

bool is_folder(int folder_fd, const dirent& entry) {
  if (entry.d_type == DT_DIR) return true;
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) return false;
  struct stat status {};
  return ::fstatat(folder_fd, entry.d_name, &status, 0) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::vector<FolderEntry> read_folder(const std::filesystem::path& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) {
    throw core::InputError(std::string("cannot read the folder: ") + std::strerror(errno),
                           path.native());
  }
  std::vector<FolderEntry> entries;
  while (const dirent* entry = ::readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe)
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    entries.push_back({std::string(name), is_folder(::dirfd(folder.get()), *entry)});
  }
  return entries;
}

void sort_names(std::vector<std::string>& names) {
  if (!std::is_sorted(names.begin(), names.end())) std::sort(names.begin(), names.end());
}

std::string_view stem_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t first = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos || dot <= first ? path : path.substr(0, dot);
}

std::string suffix_of(std::string_view path) {
  return core::lower(path.substr(stem_of(path).size()));
}

Folder::Folder(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd_ < 0) {
    throw core::InputError(std::string("cannot open the folder: ") + std::strerror(errno),
                           path.native());
  }
}

Folder::~Folder() {
  ::close(fd_);
}

std::optional<std::string_view> Folder::read(const std::string& relative, std::string& buffer,
                                             std::size_t max_bytes) const {
  constexpr std::size_t kFirst = 16 * 1024;  // nearly every label file fits; saves an fstat
  const int fd = ::openat(fd_, relative.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    throw core::Error(std::string("cannot open: ") + std::strerror(errno),
                      (path_ / relative).native());
  }
  std::size_t have = 0;
  if (buffer.size() < kFirst) buffer.resize(kFirst);
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data() + have, buffer.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || have + static_cast<std::size_t>(got) > max_bytes) {
      const int error = errno;
      ::close(fd);
      throw core::Error(got < 0 ? std::string("cannot read: ") + std::strerror(error)
                                : "larger than " + std::to_string(max_bytes) + " bytes",
                        (path_ / relative).native());
    }
    have += static_cast<std::size_t>(got);
    if (have < buffer.size()) break;  // a short read of a plain file is its end
    buffer.resize(buffer.size() * 4);
  }
  ::close(fd);
  return std::string_view(buffer).substr(0, have);
}

}  // namespace sgtrain::data
