#include "core/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/mapped_file.h"
#include "support/temp_dir.h"

namespace sgtrain::core {
namespace {

namespace fs = std::filesystem;
using support::TempDir;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST_CASE("a file appears whole, with the folders above it") {
  const TempDir dir;
  const auto path = dir.path() / "実験 1" / "run" / "x.txt";
  write_file_atomically(path, "one");
  CHECK(content(path) == "one");
  write_file_atomically(path, "two");
  CHECK(content(path) == "two");
  CHECK(files_in(path.parent_path()) == 1);
  struct stat info {};
  REQUIRE(stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0400) != 0);
}

TEST_CASE("a copy is a file of its own") {
  const TempDir dir;
  const auto a = dir.path() / "a", b = dir.path() / "new" / "b";
  const std::string text(3'000'001, 'x');
  write_file_atomically(a, text);
  copy_file_atomically(a, b);
  CHECK(content(b) == text);
  std::ofstream(a, std::ios::trunc) << "changed in place";
  CHECK(content(b) == text);
  copy_file_atomically(a, b);
  CHECK(content(b) == "changed in place");
  CHECK(files_in(b.parent_path()) == 1);
  CHECK_THROWS_AS(copy_file_atomically(dir.path() / "absent", b), Error);
  CHECK(content(b) == "changed in place");
}

TEST_CASE("without commit the old file stays and nothing is left") {
  const TempDir dir;
  const auto path = dir.path() / "x";
  write_file_atomically(path, "old");
  {
    AtomicFile file(path);
    file.write("half of the n");
    CHECK(content(path) == "old");
  }
  CHECK(content(path) == "old");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("a link stays a link") {
  const TempDir dir;
  fs::create_directory(dir.path() / "disk");
  write_file_atomically(dir.path() / "disk" / "x", "old");
  fs::create_symlink("disk/x", dir.path() / "link");
  write_file_atomically(dir.path() / "link", "new");
  CHECK(fs::is_symlink(dir.path() / "link"));
  CHECK(content(dir.path() / "disk" / "x") == "new");
}

TEST_CASE("two writers of one file do not mix") {
  const TempDir dir;
  AtomicFile one(dir.path() / "x"), two(dir.path() / "x");
  one.write("1111");
  two.write("2222");
  one.commit();
  two.commit();
  CHECK(content(dir.path() / "x") == "2222");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("errors say what, where and what to do") {
  const TempDir dir;
  CHECK_THROWS_WITH(AtomicFile(dir.path()), Catch::Contains(dir.path().string()));
  const std::uint64_t too_much = std::uint64_t{1} << 60;
  CHECK_THROWS_WITH(AtomicFile(dir.path() / "x", too_much),
                    Catch::Contains("1.0 EiB are needed") && Catch::Contains("free some space"));
  CHECK_THROWS_WITH(write_file_atomically("/proc/no/such", ""), Catch::Contains("/proc/no/such"));
  CHECK(files_in(dir.path()) == 0);
}

TEST_CASE("a disk that fills up while writing leaves the old file") {
  const TempDir dir;
  const auto path = dir.path() / "x";
  write_file_atomically(path, "old");
  // A limit on the size of files stands for the full disk: write() fails in the middle.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 10'000;
  setrlimit(RLIMIT_FSIZE, &small);
  std::string error;
  try {
    write_file_atomically(path, std::string(100'000, 'x'));
  } catch (const Error& caught) {
    error = caught.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK_THAT(error, Catch::Contains(path.string()) && Catch::Contains("free some space"));
  CHECK(content(path) == "old");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("a writer that is killed at any moment leaves a whole file and at most one leftover") {
  const TempDir dir;
  const auto path = dir.path() / "x";
  const std::string a(300'000, 'a'), b(500'000, 'b');
  write_file_atomically(path, a);
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (;;) {
        write_file_atomically(path, a);
        write_file_atomically(path, b);
      }
    }
    REQUIRE(child > 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + 3 * round));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string now = content(path);
    CHECK((now == a || now == b));
    CHECK(files_in(dir.path()) <= 2);
  }
  write_file_atomically(path, "end");
  CHECK(files_in(dir.path()) == 1);
}

TEST_CASE("a mapped file reads like the file and never writes to it") {
  const TempDir dir;
  const auto path = dir.path() / "x";
  write_file_atomically(path, "hello");
  const auto file = MappedFile::open(path);
  REQUIRE(file->size() == 5);
  file->data()[0] = std::byte{'J'};
  CHECK(content(path) == "hello");
  write_file_atomically(path, "");
  CHECK(MappedFile::open(path)->size() == 0);
  CHECK(static_cast<char>(file->bytes()[4]) == 'o');  // the old file is still mapped
  CHECK_THROWS_AS(MappedFile::open(dir.path()), InputError);
  CHECK_THROWS_AS(MappedFile::open(dir.path() / "absent"), InputError);
}

TEST_CASE("sizes are written for people") {
  CHECK(human_bytes(0) == "0 bytes");
  CHECK(human_bytes(1023) == "1023 bytes");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(std::uint64_t{5} << 30) == "5.0 GiB");
}

}  // namespace
}  // namespace sgtrain::core
