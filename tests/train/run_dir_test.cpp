#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "train/run_dir.h"

namespace fs = std::filesystem;
using namespace sgtrain;

namespace {
struct Folder {
  fs::path path = fs::temp_directory_path() / ("sgtrain_run_dir_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};
}  // namespace

TEST_CASE("each run has a folder of its own and `latest` points at the newest", "[train]") {
  const Folder root;
  const fs::path first = train::create_run_dir(root.path, "实验 é");
  const fs::path second = train::create_run_dir(root.path, "实验 é");
  CHECK(first != second);
  CHECK(fs::equivalent(root.path / "实验 é" / "latest", second));
  CHECK_FALSE(train::latest_run_dir(root.path, "实验 é", "ckpt_latest.pth"));
  std::ofstream(first / "ckpt_latest.pth") << "x";
  CHECK(train::latest_run_dir(root.path, "实验 é", "ckpt_latest.pth") == first);
  CHECK(train::latest_run_anywhere(root.path, "ckpt_latest.pth") == first);
}

TEST_CASE("names never leave their folder", "[train]") {
  const Folder root;
  for (const char* name : {"", ".", "..", "a/b", "../x", "a\nb"}) {
    INFO(name);
    CHECK_THROWS_AS(train::create_run_dir(root.path, name), core::InputError);
  }
  CHECK(fs::is_empty(root.path));
}

TEST_CASE("a folder that cannot be made is a clear error", "[train]") {
  const Folder root;
  std::ofstream(root.path / "file") << "x";
  CHECK_THROWS_WITH(train::create_run_dir(root.path / "file", "run"),
                    Catch::Contains("ckpt_root_dir"));
}
