// Whether something can be written, asked before the long work whose result goes there.
#pragma once

#include <filesystem>

namespace sgtrain::core {

/// The path itself when it exists, else the nearest folder above it that does.
std::filesystem::path nearest_existing(const std::filesystem::path& path);

/// Whether `folder` is one that may be written, or can be made.
bool can_make_folder(const std::filesystem::path& folder);

/// A file that is not there yet, with missing folders above it.
/// @throws InputError naming what stands in the way: a folder of that name, a file where a folder
/// is needed, a folder without the right to write
void check_can_write_file(const std::filesystem::path& file);
/// The same for a folder.
void check_can_make_folder(const std::filesystem::path& folder);

}  // namespace sgtrain::core
