// The pictures that a user names: files, folders, globs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sgtrain::predict {

/// Files in the given order; those of a folder (not of its sub-folders, unless `recursive`) and of
/// a glob pattern in order of name. Only files with a picture's suffix are taken from folders.
/// @throws core::InputError for a name that matches nothing
std::vector<std::filesystem::path> find_images(const std::vector<std::string>& names,
                                               bool recursive);

}  // namespace sgtrain::predict
