// The reference implementation's files (golden/checkpoints), read bit by bit, and our own back.
#include "tensor/checkpoint.h"

#include <fmt/ranges.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "support/temp_dir.h"
#include "tensor/checkpoint_file.h"
#include "tensor/safetensors.h"

namespace sgtrain::tensor {
namespace {

using support::TempDir;
using Json = nlohmann::ordered_json;

const std::filesystem::path kGolden = SGTRAIN_GOLDEN_DIR "/checkpoints";

// As structure.json writes a value: "Tensor[8, 3] torch.float32", "float: 0.5", maps and lists.
std::string scalar_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNone:
      return "NoneType: None";
    case Value::Kind::kBool:
      return value.as_bool() ? "bool: True" : "bool: False";
    case Value::Kind::kInt:
      return fmt::format("int: {}", value.as_int());
    case Value::Kind::kFloat: {
      const std::string text = fmt::format("{}", value.as_double());
      return "float: " + (text.find_first_of(".e") == text.npos ? text + ".0" : text);
    }
    case Value::Kind::kString:
      return "str: " + value.as_string();
    case Value::Kind::kTensor: {
      const at::Tensor& tensor = value.as_tensor();
      const std::string type = tensor.scalar_type() == at::kLong ? "int64" : "float32";
      return fmt::format("Tensor[{}] torch.{}", fmt::join(tensor.sizes(), ", "), type);
    }
    default:
      return std::string(kind_name(value.kind()));
  }
}

Json tree(const Value& value) {
  if (value.is_sequence()) {
    Json out = Json::array();
    for (const Value& item : value.items()) out.push_back(tree(item));
    return out;
  }
  if (!value.is_dict()) return scalar_text(value);
  Json out = Json::object();
  for (const auto& [key, item] : value.pairs()) {
    out[key.is_string() ? key.as_string() : std::to_string(key.as_int())] = tree(item);
  }
  return out;
}

void check_bits(const at::Tensor& a, const at::Tensor& b) {
  CHECK(same(Value(a), Value(b)));
}

TEST_CASE("the tree of the reference's checkpoint is read whole, in order") {
  const Json golden = Json::parse(std::ifstream(kGolden / "structure.json"));
  for (const char* name : {"ckpt_latest.pth", "average_model.pth"}) {
    INFO(name);
    const Json expected = golden["structure"][name]["tree"];
    const Json read = tree(read_pth(kGolden / name));
    for (const auto& [key, value] : expected.items()) {
      INFO(key);
      if (key == "packages") {  // the golden lists a few of them
        for (const auto& [package, version] : value.items()) {
          CHECK(read[key][package].dump() == version.dump());
        }
        continue;
      }
      // structure.json lists the first entries of the long state dicts.
      Json head = read[key];
      CHECK(head.dump().substr(0, value.dump().size() - 2) ==
            value.dump().substr(0, value.dump().size() - 2));
    }
    std::vector<std::string> keys, expected_keys = golden["structure"][name]["keys"];
    for (const auto& [key, value] : read.items()) keys.push_back(key);
    CHECK(keys == expected_keys);
  }
}

TEST_CASE("every tensor of the reference's checkpoint is equal in every bit") {
  const SafetensorsFile expected = read_safetensors(kGolden / "ckpt_latest.expected.safetensors");
  const Value content = read_pth(kGolden / "ckpt_latest.pth");
  std::size_t compared = 0;
  for (const auto& [part, prefix] : {std::pair("net", "net:"), std::pair("ema_net", "ema:")}) {
    for (const auto& [name, tensor] : to_state_dict(content[part], part)) {
      INFO(part << ": " << name);
      // The golden keeps scalars as shape [1].
      check_bits(tensor, expected[prefix + name].reshape(tensor.sizes()));
      ++compared;
    }
  }
  for (const auto& [index, state] : content["optimizer_state_dict"]["state"].pairs()) {
    INFO(index.as_int());
    const auto name = fmt::format("momentum:{}", index.as_int());
    check_bits(state["momentum_buffer"].as_tensor(), expected[name]);
    ++compared;
  }
  CHECK(compared == expected.tensors.size());
}

TEST_CASE("all file formats of the reference hold the same weights") {
  const auto zip = read_weights(kGolden / "ckpt_latest.pth");
  const auto raw = read_weights(kGolden / "ckpt_latest.pth", /*prefer_ema=*/false);
  CHECK(zip.source == "ema_net");
  CHECK(raw.source == "net");
  const auto expect = [](const StateDict& a, const StateDict& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].first);
      CHECK(a[i].first == b[i].first);
      check_bits(a[i].second, b[i].second);
    }
  };
  CHECK(zip.tensors.size() == 74);
  expect(read_weights(kGolden / "ckpt_ddp_module_prefix.pth").tensors, zip.tensors);
  expect(read_weights(kGolden / "bare_state_dict.pth").tensors, raw.tensors);
  expect(read_weights(kGolden / "ckpt_legacy_nonzip.pth").tensors, raw.tensors);
  CHECK(read_weights(kGolden / "average_model.pth").tensors.size() == 74);
  const TempDir dir;
  write_safetensors(dir.path() / "w.safetensors", zip.tensors);
  CHECK(read_weights(dir.path() / "w.safetensors").tensors.size() == 74);
}

TEST_CASE("a checkpoint is read into its parts and written back equal") {
  const TempDir dir;
  const Checkpoint read = Checkpoint::read(kGolden / "ckpt_latest.pth");
  CHECK(read.acc == 0.0625);
  CHECK(read.epoch == 3);
  CHECK(read.metrics.tracked_metric_name == "Accuracy");
  CHECK(read.metrics.valid == std::vector<std::pair<std::string, double>>{{"Accuracy", 0.0625}});
  REQUIRE(read.best_metrics);
  CHECK(read.best_metrics->valid[0].second == 0.25);
  CHECK(read.packages.size() > 50);
  REQUIRE(read.ema_net);
  const auto path = dir.path() / "名前" / "ckpt_latest.pth";
  read.write(path);
  const Value again = read_pth(path);
  CHECK(same(again, read.to_value()));
  CHECK(same(again, read_pth(kGolden / "ckpt_latest.pth")));
  CHECK(std::filesystem::exists(path.parent_path() / ".ckpt_latest.pth.tmp") == false);
}

TEST_CASE("every kind of value and tensor survives writing") {
  const TempDir dir;
  const auto path = dir.path() / "x.pth";
  const at::Tensor shared = at::randn({4, 3});
  Value value = Value::dict();
  value.append("none", {});
  value.append("numbers", Value::list({true, false, 0, 255, 256, -1, std::int64_t{1} << 40,
                                       std::numeric_limits<std::int64_t>::min(), 0.1, -0.0,
                                       std::numeric_limits<double>::infinity()}));
  value.append("texts", Value::tuple({"", "größe 名前", std::string(300, 'x')}));
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  value.append("bytes", Value::bytes(all));
  value.append(7, Value::dict({{-3, "key"}, {0.5, "key"}}));
  value.append("ordered", Value::ordered_dict({{"w", shared}, {"tied", shared}}));
  value.append("strided", shared.t());
  value.append("channels_last", at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast));
  value.append("expanded", at::ones({1}).expand({3}));
  value.append("scalar", at::scalar_tensor(std::int64_t{-4}, at::kLong));
  value.append("empty", at::empty({0, 3}));
  for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool, at::kComplexFloat, at::kUInt16, at::kUInt32,
                          at::kUInt64, at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    value.append(c10::toString(type), at::arange(5).to(type));
  }
  write_pth(path, value);
  const Value read = read_pth(path);
  CHECK(same(read, value));
  const auto& ordered = read["ordered"];
  CHECK(ordered.is_ordered());
  CHECK(ordered["w"].as_tensor().data_ptr() == ordered["tied"].as_tensor().data_ptr());
  CHECK_THROWS_WITH(write_pth(path, Value::object("a.B", {}, {}, {})), Catch::Contains("'a.B'"));
  CHECK(same(read_pth(path), value));  // the failed write left the old file
}

TEST_CASE("a file cut anywhere is an error that says so") {
  const TempDir dir;
  for (const char* name : {"bare_state_dict.pth", "ckpt_legacy_nonzip.pth"}) {
    std::ifstream in(kGolden / name, std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
      INFO(name << " cut to " << size);
      const auto path = dir.path() / "cut.pth";
      std::ofstream(path, std::ios::binary) << whole.substr(0, size);
      CHECK_THROWS_AS(read_pth(path), core::InputError);
      CHECK_THROWS_WITH(read_pth(path), Catch::Contains("cut.pth") && Catch::Contains("->"));
    }
  }
}

TEST_CASE("a damaged byte is noticed or harmless, never a crash") {
  const TempDir dir;
  std::ifstream in(kGolden / "ckpt_legacy_nonzip.pth", std::ios::binary);
  const std::string legacy((std::istreambuf_iterator<char>(in)), {});
  in = std::ifstream(kGolden / "bare_state_dict.pth", std::ios::binary);
  const std::string zip((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t random = 1;
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    std::string damaged = i % 2 == 0 ? legacy : zip;
    random = random * 6364136223846793005u + 1442695040888963407u;
    // Heads and ends are where the structure lies.
    const std::size_t range = i % 4 < 2 ? 9000 : damaged.size();
    const std::size_t at =
        i % 8 < 2 ? damaged.size() - 1 - (random >> 33) % range : (random >> 33) % range;
    damaged[at] = static_cast<char>(random >> 20);
    const auto path = dir.path() / "damaged.pth";
    std::ofstream(path, std::ios::binary) << damaged;
    try {
      for (const auto& [name, tensor] : read_weights(path).tensors) tensor.sum();
    } catch (const core::InputError&) {
      ++refused;
    }
  }
  CHECK(refused > 200);
}

TEST_CASE("files that are something else are named for what they are") {
  const TempDir dir;
  const auto refused = [&](const std::string& content, const std::string& text) {
    const auto path = dir.path() / "x.pth";
    std::ofstream(path, std::ios::binary) << content;
    CHECK_THROWS_WITH(read_pth(path), Catch::Contains(text));
  };
  refused("", "empty");
  refused("<!DOCTYPE html><html>Sign in</html>", "web page");
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "LFS");
  refused("just text", "not a checkpoint");
  refused(std::string("PK\x05\x06") + std::string(18, '\0'), "no data.pkl");
  refused("PK\x03\x04" + std::string(1000, 'x'), "no central directory");
  CHECK_THROWS_WITH(read_pth(dir.path() / "absent.pth"), Catch::Contains("absent.pth"));
  CHECK_THROWS_WITH(read_pth(dir.path()), Catch::Contains("directory"));
}

TEST_CASE("processings that were pickled as objects become a recipe's maps") {
  const Value object = Value::object(
      "super_gradients.training.processing.processing.ComposeProcessing", Value::tuple(),
      Value::dict(
          {{"processings",
            Value::list({Value::object("a.b.NormalizeImage", Value::tuple(),
                                       Value::dict({{"mean", at::tensor({0.5, 0.25})}}), {}),
                         Value::object("a.b.Mode", Value::tuple({"linear"}), {}, {})})}}),
      {});
  const Value expected = Value::dict(
      {{"ComposeProcessing",
        Value::dict(
            {{"processings",
              Value::list({Value::dict({{"NormalizeImage",
                                         Value::dict({{"mean", Value::list({0.5, 0.25})}})}}),
                           "linear"})}})}});
  CHECK(same(plain_objects(object), expected));
}

}  // namespace
}  // namespace sgtrain::tensor
