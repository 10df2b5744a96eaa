#include "core/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/writable.h"

namespace sgtrain::core {
namespace fs = std::filesystem;
namespace {

constexpr int kMostWriters = 16;  // of one target at the same time

std::string reason(int error) {
  return std::generic_category().message(error);
}

// The file that a link stands for, so that a link to another disk stays a link.
fs::path resolve(const fs::path& target) {
  std::error_code ignored;
  if (!fs::is_symlink(target, ignored)) return target;
  const fs::path resolved = fs::weakly_canonical(target, ignored);
  return ignored ? target : resolved;
}

// A temporary file left by a killed process is taken over; one that is being written is locked.
// True when `fd` is locked and still is what `path` names (its last writer may have renamed it).
bool own(int fd, const fs::path& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  struct stat opened {};
  struct stat named {};
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;  // a folder that may be written but not read: the rename stands anyway
  fsync(fd);
  close(fd);
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target, std::uint64_t expected_bytes)
    : target_(resolve(target)) {
  std::error_code error;
  if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
  if (error) fail(error.value(), "cannot create the folder of the file");
  if (fs::is_directory(target_, error)) fail(EISDIR, "cannot write");
  const std::uint64_t available = free_space(target_);
  if (expected_bytes > available) {
    throw Error(fmt::format("no space left: {} are needed, {} are free",
                            human_bytes(expected_bytes), human_bytes(available)),
                target_.string(), "free some space or write to another disk");
  }
  open_temporary();
}

void AtomicFile::open_temporary() {
  const fs::path folder = target_.parent_path();
  std::string name = target_.filename().string();
  name.resize(std::min<std::size_t>(name.size(), 200));  // NAME_MAX is 255
  for (int attempt = 0; attempt < kMostWriters; ++attempt) {
    const std::string number = attempt == 0 ? "" : "." + std::to_string(attempt);
    temporary_ = folder / ("." + name + number + ".tmp");
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail(errno, "cannot create a file in this folder");
    if (own(fd_, temporary_)) {
      if (ftruncate(fd_, 0) == 0) return;
      fail(errno, "cannot write");
    }
    close(fd_);
    fd_ = -1;
  }
  fail(EBUSY, "too many processes write this file");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  unlink(temporary_.c_str());
  close(fd_);
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(fd_, from, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(errno, "cannot write");
    from += done;
    bytes -= static_cast<std::size_t>(done);
    written_ += static_cast<std::uint64_t>(done);
  }
}

void AtomicFile::write_file(const fs::path& source) {
  const int from = open(source.c_str(), O_RDONLY | O_CLOEXEC);
  if (from < 0) {
    throw Error("cannot read the file: " + reason(errno), source.string());
  }
  struct Close {
    int fd;
    ~Close() { close(fd); }
  } const closes{from};
  if (written_ == 0 && ioctl(fd_, FICLONE, from) == 0) return;
  std::vector<char> block(std::size_t{1} << 20);
  for (;;) {
    const ssize_t got = read(from, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error("cannot read the file: " + reason(errno), source.string());
    if (got == 0) return;
    write(block.data(), static_cast<std::size_t>(got));
  }
}

void AtomicFile::commit() {
  if (fsync(fd_) != 0) fail(errno, "cannot write to the disk");
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno, "cannot replace the file");
  close(fd_);
  fd_ = -1;
  sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

void AtomicFile::fail(int error, std::string_view doing) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  throw Error(fmt::format("{}: {}", doing, reason(error)), target_.string(),
              full ? "free some space or write to another disk" : "");
}

void write_file_atomically(const fs::path& target, std::string_view content) {
  AtomicFile file(target, content.size());
  file.write(content);
  file.commit();
}

void copy_file_atomically(const fs::path& source, const fs::path& target) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(source, error);
  AtomicFile file(target, error ? 0 : size);
  file.write_file(source);
  file.commit();
}

std::uint64_t free_space(const fs::path& path) {
  std::error_code error;
  const fs::space_info info = fs::space(nearest_existing(path), error);
  return error ? std::numeric_limits<std::uint64_t>::max() : info.available;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < std::size(kUnits)) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace sgtrain::core
