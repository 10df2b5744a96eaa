#include "core/writable.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "core/error.h"
#include "support/temp_dir.h"

using namespace sgtrain;

TEST_CASE("a place that cannot be written is found before the work") {
  const support::TempDir dir;
  std::ofstream(dir.path() / "file") << "x";
  CHECK_NOTHROW(core::check_can_write_file(dir.path() / "new.json"));
  CHECK_NOTHROW(core::check_can_write_file(dir.path() / "file"));
  CHECK_NOTHROW(core::check_can_write_file(dir.path() / "a" / "b" / "new.json"));
  CHECK_NOTHROW(core::check_can_make_folder(dir.path()));
  CHECK_NOTHROW(core::check_can_make_folder(dir.path() / "a" / "b"));
  CHECK_NOTHROW(core::check_can_write_file("relative.json"));
  CHECK_THROWS_AS(core::check_can_write_file(dir.path()), core::InputError);
  CHECK_THROWS_AS(core::check_can_write_file(dir.path() / "file" / "new.json"), core::InputError);
  CHECK_THROWS_AS(core::check_can_make_folder(dir.path() / "file"), core::InputError);
  CHECK_THROWS_AS(core::check_can_make_folder(dir.path() / "file" / "a" / "b"), core::InputError);
}
