#include "core/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/plugin_abi.h"

namespace sgtrain::core {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxAbiLength = 200;

void load(const fs::path& file) {
  const std::string theirs = read_plugin_abi(file);
  if (theirs.empty()) {
    throw InputError("this file is no plug-in of sgtrain", file.native(),
                     "build it with sgtrain_add_plugin() of find_package(sgtrain)");
  }
  if (theirs != plugin_abi()) {
    throw InputError(fmt::format("the plug-in was built for another program: {}; this is {}",
                                 theirs, plugin_abi()),
                     file.native(), "build it again against this installation");
  }
  // Global, so that one plug-in may use another; now, so that what is missing is found here.
  if (::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* reason = ::dlerror();
    throw InputError(
        fmt::format("the plug-in cannot be loaded: {}", reason ? reason : "no reason given"),
        file.native());
  }
}

}  // namespace

std::string_view plugin_abi() {
  return SGTRAIN_ABI;
}

std::string read_plugin_abi(const fs::path& file) {
  const auto mapped = MappedFile::open(file);
  const auto bytes = mapped->bytes();
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // Put together at run time: the program itself must not hold the mark followed by a text.
  const std::string mark = SGTRAIN_ABI_MARK;
  const auto found = std::search(content.begin(), content.end(),
                                 std::boyer_moore_searcher(mark.begin(), mark.end()));
  if (found == content.end()) return {};
  const auto start = static_cast<std::size_t>(found - content.begin()) + mark.size();
  const std::string_view text = content.substr(start, kMaxAbiLength);
  return std::string(text.substr(0, text.find('\0')));
}

void open_plugin(const fs::path& file) {
  static std::mutex mutex;
  static std::set<fs::path> open;
  const std::lock_guard lock(mutex);
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) {
    throw InputError(
        "there is no such plug-in", fs::absolute(file).native(),
        "`plugins` lists paths of shared libraries, relative ones from the recipe's folder");
  }
  if (open.contains(real)) return;
  load(real);
  open.insert(real);
}

}  // namespace sgtrain::core
