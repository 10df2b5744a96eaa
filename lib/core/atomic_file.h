// Files that are either the old one or the whole new one, whatever happens while writing: written
// under a temporary name in the same folder, synced, renamed over the target, folder synced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sgtrain::core {

class AtomicFile {
 public:
  /// Creates the missing folders and the temporary file `.NAME.tmp` beside `target` (a link is
  /// followed). When `expected_bytes` > 0, the free space of the file system is checked first.
  /// Throws core::Error (no space, no right, target is a folder).
  explicit AtomicFile(const std::filesystem::path& target, std::uint64_t expected_bytes = 0);
  /// Without commit() the temporary file is removed and the target stays as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Appends the content of another file. File systems that can share blocks copy nothing.
  void write_file(const std::filesystem::path& source);
  std::uint64_t written() const { return written_; }
  /// Syncs, renames, syncs the folder. Nothing may be written afterwards.
  void commit();

 private:
  void open_temporary();
  [[noreturn]] void fail(int error, std::string_view doing) const;

  std::filesystem::path target_, temporary_;
  int fd_ = -1;
  std::uint64_t written_ = 0;
};

/// The whole content in one call.
void write_file_atomically(const std::filesystem::path& target, std::string_view content);

/// A file of its own with the same content: changing one in place leaves the other alone.
void copy_file_atomically(const std::filesystem::path& source, const std::filesystem::path& target);

/// Bytes that an unprivileged user may still write on the file system of `path` (its nearest
/// existing parent); the greatest value when that cannot be told.
std::uint64_t free_space(const std::filesystem::path& path);

/// "1.5 GiB"
std::string human_bytes(std::uint64_t bytes);

}  // namespace sgtrain::core
