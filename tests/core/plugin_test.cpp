#include "core/plugin.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/error.h"
#include "core/plugin_abi.h"
#include "support/temp_dir.h"

using namespace sgtrain;
using Catch::Matchers::Contains;

namespace {

std::filesystem::path write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string message_of_opening(const std::filesystem::path& file) {
  try {
    core::open_plugin(file);
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the ABI text names versions and compiler") {
  const std::string text(core::plugin_abi());
  CHECK_THAT(text, Contains("sgtrain ") && Contains(", torch 2.") && Contains("C++ ABI"));
}

TEST_CASE("what a plug-in was built with is read without opening it") {
  const support::TempDir folder;
  const std::string mark = SGTRAIN_ABI_MARK;
  const auto file = write(folder.path() / "p.so",
                          "\x7f"
                          "ELF junk " +
                              mark + "sgtrain 0, torch 1" + std::string(1, '\0') + "more");
  CHECK(core::read_plugin_abi(file) == "sgtrain 0, torch 1");
  CHECK(core::read_plugin_abi(write(folder.path() / "none.so", "nothing here")).empty());
  // A mark at the very end, and one that never ends.
  CHECK(core::read_plugin_abi(write(folder.path() / "end.so", mark)).empty());
  CHECK(core::read_plugin_abi(write(folder.path() / "long.so", mark + std::string(5000, 'x')))
            .size() < 300);
}

TEST_CASE("files that are no plug-in for this program are refused with the reason") {
  const support::TempDir folder;
  CHECK_THAT(message_of_opening(folder.path() / "absent.so"),
             Contains("no such plug-in") && Contains((folder.path() / "absent.so").native()));
  CHECK_THAT(message_of_opening(write(folder.path() / "text.so", "hello")),
             Contains("no plug-in of sgtrain"));
  const std::string mark = SGTRAIN_ABI_MARK;
  CHECK_THAT(
      message_of_opening(write(folder.path() / "other.so", mark + "sgtrain 0.0.1, torch 1.0")),
      Contains("built for another program") && Contains("sgtrain 0.0.1, torch 1.0"));
  // The right text, but no shared library behind it.
  CHECK_THAT(
      message_of_opening(write(folder.path() / "fake.so", mark + std::string(core::plugin_abi()))),
      Contains("cannot be loaded"));
}
