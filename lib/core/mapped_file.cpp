#include "core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace sgtrain::core {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  const std::string why = std::generic_category().message(error);
  throw InputError("cannot read the file: " + why, std::filesystem::absolute(path).string());
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }  // NOLINT(google-explicit-constructor): used as the number

 private:
  int fd_;
};

}  // namespace

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO given as a file must not hang.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd < 0) fail(path, errno);
  struct stat info {};
  if (fstat(fd, &info) != 0) fail(path, errno);
  if (!S_ISREG(info.st_mode)) fail(path, S_ISDIR(info.st_mode) ? EISDIR : EINVAL);
  std::shared_ptr<MappedFile> file(new MappedFile(path));
  if (info.st_size == 0) return file;  // mmap refuses an empty file
  const auto size = static_cast<std::size_t>(info.st_size);
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) fail(path, errno);
  file->data_ = static_cast<std::byte*>(at);
  file->size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace sgtrain::core
