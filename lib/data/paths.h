// Where relative data paths are looked up: the recipe's folder first, then the working folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::data {

class Paths {
 public:
  /// Working folder only.
  Paths() = default;
  /// `recipe_dir` first, then the working folder.
  explicit Paths(std::filesystem::path recipe_dir) : recipe_dir_(std::move(recipe_dir)) {}

  /// Absolute path of an existing file or folder. Bytes of names pass through unchanged; "~/" is
  /// the home folder. `what` ("image folder", …) and `where` (file:line of the key) are for the
  /// message. Errors: core::InputError that lists every absolute path tried.
  std::filesystem::path find(const std::string& path, std::string_view what,
                             std::string_view where = {}) const;
  /// All absolute paths that find() tries, in order.
  std::vector<std::filesystem::path> candidates(const std::string& path) const;

 private:
  std::filesystem::path recipe_dir_;
};

}  // namespace sgtrain::data
