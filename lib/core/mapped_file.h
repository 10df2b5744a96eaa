// A file in memory without reading it: pages come in when they are touched.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace sgtrain::core {

class MappedFile {
 public:
  /// Throws core::InputError when the file is absent, unreadable or not a plain file.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  /// The mapping is private: what is written here never reaches the file.
  std::byte* data() { return data_; }
  std::size_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit MappedFile(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace sgtrain::core
