#include "data/paths.h"

#include <cstdlib>

#include "core/error.h"

namespace sgtrain::data {
namespace fs = std::filesystem;

std::vector<fs::path> Paths::candidates(const std::string& path) const {
  fs::path wanted(path);
  if (path == "~" || path.starts_with("~/")) {
    const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (home != nullptr) wanted = fs::path(home) / path.substr(path.size() > 1 ? 2 : 1);
  }
  if (wanted.is_absolute()) return {wanted.lexically_normal()};
  std::vector<fs::path> out;
  if (!recipe_dir_.empty()) out.push_back(fs::absolute(recipe_dir_ / wanted).lexically_normal());
  const fs::path here = fs::absolute(wanted).lexically_normal();
  if (out.empty() || out.front() != here) out.push_back(here);
  return out;
}

fs::path Paths::find(const std::string& path, std::string_view what, std::string_view where) const {
  std::string tried;
  for (const fs::path& candidate : candidates(path)) {
    std::error_code error;
    if (fs::exists(candidate, error)) return candidate;
    tried += "\n  " + candidate.native();
    if (error) tried += " (" + error.message() + ")";
  }
  throw core::InputError(std::string(what) + " '" + path + "' not found; tried:" + tried, where,
                         "relative paths start at the recipe's folder, then at the working folder");
}

}  // namespace sgtrain::data
