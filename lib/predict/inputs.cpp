#include "predict/inputs.h"

#include <glob.h>

#include <algorithm>

#include "core/error.h"
#include "image/image.h"

namespace sgtrain::predict {
namespace fs = std::filesystem;
namespace {

std::vector<fs::path> images_of(const fs::path& folder, bool recursive) {
  std::vector<fs::path> files;
  const auto take = [&](const fs::directory_entry& entry) {
    if (entry.is_regular_file() && image::has_image_suffix(entry.path()))
      files.push_back(entry.path());
  };
  if (recursive) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) take(entry);
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) take(entry);
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return files;
}

}  // namespace

std::vector<fs::path> find_images(const std::vector<std::string>& names, bool recursive) {
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    std::vector<fs::path> here;
    if (name.empty()) throw core::InputError("an empty name", "inputs", "name files or folders");
    if (fs::is_directory(name)) {
      here = images_of(name, recursive);
      if (here.empty()) {
        throw core::InputError("this folder holds no pictures", fs::absolute(name).string(),
                               recursive ? "" : "--recursive also looks into its sub-folders");
      }
    } else if (fs::exists(name)) {
      here = {name};
    } else {
      here = matches_of(name);
      if (here.empty())
        throw core::InputError("there is no such file, folder or match",
                               fs::absolute(name).string());
    }
    files.insert(files.end(), here.begin(), here.end());
  }
  return files;
}

}  // namespace sgtrain::predict
