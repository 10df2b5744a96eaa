// Plug-ins: shared libraries whose registrations add components (models, losses, transforms, …).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sgtrain::core {

/// What a plug-in must have been built with to fit this program: versions of sgtrain and LibTorch,
/// compiler and its ABI. sgtrain_add_plugin() of find_package(sgtrain) puts the same text into
/// every plug-in.
std::string_view plugin_abi();

/// The text a plug-in was built with, read from the file without running anything of it; empty
/// when it holds none. Throws InputError when the file cannot be read.
std::string read_plugin_abi(const std::filesystem::path& file);

/// Opens a plug-in for the rest of the process; its components are registered afterwards. A second
/// call with the same file does nothing. Throws InputError when there is no such file, when it is
/// no plug-in, was built for another ABI (nothing of it is run then), or cannot be loaded.
void open_plugin(const std::filesystem::path& file);

}  // namespace sgtrain::core
