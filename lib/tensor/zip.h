// Zip archives as torch.save writes them: stored entries, each aligned on 64 bytes (PKWARE
// APPNOTE 6.3.10, zip64 included). Reading checks every number against the size of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/atomic_file.h"

namespace sgtrain::tensor {

struct ZipEntry {
  std::string name;
  std::uint64_t offset = 0;  // of the data in the file
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool readable = true;  // false: compressed or encrypted, which torch.save never does to weights
};

class ZipReader {
 public:
  static bool looks_like_zip(std::span<const std::byte> file);

  /// `file` must outlive the reader. Throws core::InputError: no central directory (an incomplete
  /// file), anything outside the file.
  ZipReader(std::span<const std::byte> file, std::string where);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  const ZipEntry* find(std::string_view name) const;
  /// The bytes of an entry; its checksum is compared. Compressed entries are an error.
  std::span<const std::byte> data(const ZipEntry& entry) const;

 private:
  struct Directory {
    std::uint64_t offset = 0, size = 0, count = 0;
  };
  Directory find_directory() const;
  void read_entries(const Directory& directory);
  [[noreturn]] void fail(std::string_view text) const;

  std::span<const std::byte> file_;
  std::string where_;
  std::vector<ZipEntry> entries_;
  std::unordered_map<std::string, std::size_t> index_;
};

class ZipWriter {
 public:
  explicit ZipWriter(core::AtomicFile& file) : file_(file) {}
  void add(std::string name, const void* data, std::uint64_t size);
  void add(std::string name, std::string_view text) {
    add(std::move(name), text.data(), text.size());
  }
  /// Writes the central directory; the file is still to be committed.
  void finish();
  /// Upper bound of what an entry adds to the file beside its data.
  static constexpr std::uint64_t kOverhead = 512;

 private:
  struct Written {
    ZipEntry entry;
    std::uint64_t header = 0;  // offset of the local header
  };
  core::AtomicFile& file_;
  std::vector<Written> written_;
};

}  // namespace sgtrain::tensor
