#include "tensor/safetensors.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "support/temp_dir.h"

namespace sgtrain::tensor {
namespace {

using support::TempDir;

std::filesystem::path write_raw(const TempDir& dir, const std::string& header,
                                const std::string& data, std::int64_t length = -1) {
  const auto path = dir.path() / "x.safetensors";
  std::ofstream out(path, std::ios::binary);
  const auto n =
      length < 0 ? static_cast<std::uint64_t>(header.size()) : static_cast<std::uint64_t>(length);
  out.write(reinterpret_cast<const char*>(&n), 8);
  out << header << data;
  return path;
}

TEST_CASE("safetensors files written by us are read back bit by bit") {
  const TempDir dir;
  const auto path = dir.path() / "weights.safetensors";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {
      {"flag", at::tensor({1, 0, 1}).to(at::kBool)},
      {"a.weight", at::randn({3, 4, 5}).permute({2, 0, 1})},  // not contiguous
      {"half", at::randn({7}).to(at::kHalf)},
      {"bf", at::randn({7}).to(at::kBFloat16)},
      {"double", at::randn({2}, at::kDouble)},
      {"long", at::tensor({std::int64_t{-5}, std::numeric_limits<std::int64_t>::max()})},
      {"scalar", at::scalar_tensor(nan)},
      {"none", at::empty({0, 4})},
      {"bytes", at::arange(5, at::kByte)},
  };
  write_safetensors(path, tensors, {{"format", "pt"}, {"name", "größe \"x\""}});
  CHECK(is_safetensors(path));
  const SafetensorsFile read = read_safetensors(path);
  REQUIRE(read.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    INFO(name);
    CHECK(read[name].scalar_type() == tensor.scalar_type());
    CHECK(read[name].sizes() == tensor.sizes());
    const at::Tensor bits = tensor.contiguous().view(-1);
    CHECK(std::memcmp(read[name].const_data_ptr(), bits.const_data_ptr(), bits.nbytes()) == 0);
  }
  CHECK(read.metadata.at("name") == "größe \"x\"");
  read["a.weight"].fill_(3.0F);  // a private mapping: the file does not change
  CHECK_FALSE(at::equal(read_safetensors(path)["a.weight"], read["a.weight"]));
  CHECK_THROWS_WITH(read["a.wieght"], Catch::Contains("did you mean 'a.weight'"));
}

TEST_CASE("damaged safetensors files are refused before anything is allocated") {
  const TempDir dir;
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string data(8, 'x');
  CHECK(read_safetensors(write_raw(dir, good, data))["a"].numel() == 2);

  const auto refused = [&](const std::string& header, const std::string& bytes, std::int64_t length,
                           const std::string& text) {
    const auto path = write_raw(dir, header, bytes, length);
    INFO(header.substr(0, 200));
    CHECK_THROWS_AS(read_safetensors(path), core::InputError);
    CHECK_THROWS_WITH(read_safetensors(path), Catch::Contains(text));
  };
  refused(good, "xxxx", -1, "outside the file");
  refused(good, data + "more", -1, "are listed");
  refused(good, data, std::int64_t{1} << 40, "does not fit the file");
  refused("[1]", "", -1, "not JSON");
  refused(std::string(100000, '['), "", -1, "not JSON");
  refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data, -1, "needs 12 bytes");
  refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", data, -1,
          "too large");
  refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data, -1, "list of sizes");
  refused(R"({"a":{"dtype":"Q32","shape":[2],"data_offsets":[0,8]}})", data, -1, "unknown dtype");
  refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data, -1, "outside");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data, -1, "hole");
  refused(R"({"a":{"dtype":"F32","shape":[2]}})", data, -1, "required");
  refused(R"({"a":3})", data, -1, "required");
  std::ofstream(dir.path() / "short").write("abc", 3);
  CHECK_THROWS_WITH(read_safetensors(dir.path() / "short"), Catch::Contains("shorter"));
  CHECK_THROWS_WITH(read_safetensors(dir.path() / "absent"), Catch::Contains("absent"));
  CHECK_THROWS_AS(read_safetensors(dir.path()), core::InputError);
}

TEST_CASE("goldens are readable") {
  const auto file =
      read_safetensors(SGTRAIN_GOLDEN_DIR "/checkpoints/ckpt_latest.expected.safetensors");
  CHECK(file.tensors.size() > 100);
}

}  // namespace
}  // namespace sgtrain::tensor
