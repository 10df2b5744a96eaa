// Listing folders of a million files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::data {

/// Paths of all files below `root` (subfolders included, links to folders followed once) for which
/// `wanted(name)` holds, relative to root, sorted by bytes. Hidden entries (".x") are left out.
/// Errors: core::InputError when a folder cannot be read.
template <class Wanted>
std::vector<std::string> list_files(const std::filesystem::path& root, const Wanted& wanted);

/// "a/b.c.png" → "a/b.c"
std::string_view stem_of(std::string_view path);
/// Suffix with its dot, lower case; empty when there is none.
std::string suffix_of(std::string_view path);

/// Opens files of one folder by relative path; saves the kernel the walk from "/".
class Folder {
 public:
  explicit Folder(const std::filesystem::path& path);  // InputError when it cannot be opened
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  /// A whole file, as a view into `buffer` (reused between calls). nullopt when it does not exist.
  /// Errors: core::Error with path and reason; larger than `max_bytes`.
  std::optional<std::string_view> read(const std::string& relative, std::string& buffer,
                                       std::size_t max_bytes) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// ---- implementation

/// Entries of one folder: name and whether it is a folder.
struct FolderEntry {
  std::string name;
  bool folder = false;
};
std::vector<FolderEntry> read_folder(const std::filesystem::path& path);
void sort_names(std::vector<std::string>& names);

template <class Wanted>
std::vector<std::string> list_files(const std::filesystem::path& root, const Wanted& wanted) {
  constexpr std::size_t kMaxDepth = 32;  // links may form circles
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::size_t>> pending = {{"", 0}};
  while (!pending.empty()) {
    const auto [prefix, depth] = std::move(pending.back());
    pending.pop_back();
    for (FolderEntry& entry : read_folder(prefix.empty() ? root : root / prefix)) {
      if (entry.name.starts_with('.')) continue;
      if (entry.folder) {
        if (depth < kMaxDepth) pending.emplace_back(prefix + entry.name + "/", depth + 1);
      } else if (wanted(std::string_view(entry.name))) {
        files.push_back(prefix + entry.name);
      }
    }
  }
  sort_names(files);
  return files;
}

}  // namespace sgtrain::data
