#include "tensor/zip.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/mapped_file.h"
#include "support/temp_dir.h"

namespace sgtrain::tensor {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string archive(int entries, const std::string& content) {
  const support::TempDir dir;
  core::AtomicFile file(dir.path() / "x.zip");
  ZipWriter writer(file);
  for (int i = 0; i < entries; ++i) writer.add("a/" + std::to_string(i), content);
  writer.finish();
  file.commit();
  return bytes_of(dir.path() / "x.zip");
}

std::span<const std::byte> span_of(const std::string& bytes) {
  return std::as_bytes(std::span(bytes.data(), bytes.size()));
}

TEST_CASE("entries are aligned and come back") {
  const std::string bytes = archive(5, "hello");
  const ZipReader zip(span_of(bytes), "x.zip");
  REQUIRE(zip.entries().size() == 5);
  for (const ZipEntry& entry : zip.entries()) {
    CHECK(entry.offset % 64 == 0);
    CHECK(std::memcmp(zip.data(entry).data(), "hello", 5) == 0);
  }
  CHECK(zip.find("a/4") != nullptr);
  CHECK(zip.find("a/5") == nullptr);
}

TEST_CASE("more entries than 16 bits count (zip64)") {
  const std::string bytes = archive(70'000, "x");
  const ZipReader zip(span_of(bytes), "x.zip");
  CHECK(zip.entries().size() == 70'000);
  CHECK(zip.data(*zip.find("a/69999")).size() == 1);
}

TEST_CASE("wrong numbers in an archive are errors") {
  const std::string good = archive(2, "hello");
  const std::size_t directory = good.find("PK\x01\x02");
  const std::size_t end = good.rfind("PK\x05\x06");
  const auto with = [&](std::size_t at, const std::string& patch) {
    std::string bad = good;
    bad.replace(at, patch.size(), patch);
    return bad;
  };
  const std::string full = "\xf0\xff\xff\xff";
  for (const std::string& bad :
       {with(directory + 24, full),  // size
        with(directory + 20, full),  // packed size
        with(directory + 42, full),  // offset
        with(directory + 28, "\xff\xff"), with(directory + 30, "\xff\xff"),
        with(directory + 10, "\x08"),  // deflated
        with(directory + 8, "\x01"),   // encrypted
        with(directory + 16, full),    // checksum
        with(end + 12, full), with(end + 16, full), with(end + 10, "\xff\x7f"), with(end, "XX"),
        good.substr(0, good.size() - 1), good + "x"}) {
    CHECK_THROWS_AS(
        [&] {
          const ZipReader zip(span_of(bad), "x.zip");
          for (const ZipEntry& entry : zip.entries()) zip.data(entry);
        }(),
        core::InputError);
  }
}

}  // namespace
}  // namespace sgtrain::tensor
