#include "data/paths.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::data {
namespace {

using Catch::Contains;

TEST_CASE("relative paths: the recipe's folder, then the working folder (case C6)") {
  const support::TempDir dir;
  const auto before = std::filesystem::current_path();
  const auto a = dir.path() / "a", b = dir.path() / "b";
  support::write_text(a / "only_a", "x");
  support::write_text(a / "both", "x");
  support::write_text(b / "both", "x");
  support::write_text(b / "only_b", "x");
  std::filesystem::current_path(b);
  const Paths paths(a);
  CHECK(paths.find("only_a", "file") == a / "only_a");
  CHECK(paths.find("both", "file") == a / "both");
  CHECK(paths.find("./only_b", "file") == b / "only_b");
  CHECK(paths.find((a / "both").native(), "file") == a / "both");
  CHECK_THROWS_WITH(paths.find("sub/none", "annotation file", "r.yaml:7"),
                    Contains("annotation file 'sub/none' not found") &&
                        Contains((a / "sub/none").native()) &&
                        Contains((b / "sub/none").native()) && Contains("r.yaml:7"));
  CHECK(Paths().candidates("x") == std::vector<std::filesystem::path>{b / "x"});
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace sgtrain::data
