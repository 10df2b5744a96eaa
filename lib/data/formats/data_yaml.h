// The data.yaml of Ultralytics: folders of each split and the class names.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sgtrain::data {

struct DataYaml {
  std::filesystem::path root;  // `path` (relative to the file's folder), or the file's folder
  std::vector<std::string> train, val, test;  // folders or list files, as written
  std::vector<std::string> names;             // class names by index

  /// Errors: core::InputError with file:line (names missing, not 0..n-1, nc of another number).
  static DataYaml read(const std::filesystem::path& file);
  /// "train", "val" (or "valid") or "test". Errors: core::InputError when absent.
  const std::vector<std::string>& split(const std::string& name) const;
  std::filesystem::path file;
};

}  // namespace sgtrain::data
