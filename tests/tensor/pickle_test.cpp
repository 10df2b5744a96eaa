// The pickle machine on pickles made by hand: what it builds, and what it refuses.
#include "tensor/pickle.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"

namespace sgtrain::tensor {
namespace {

using namespace std::string_literals;

Value load(const std::string& pickle) {
  Unpickler unpickler(std::as_bytes(std::span(pickle.data(), pickle.size())), "test.pth");
  unpickler.run();
  return unpickler.result([](const StorageRef& ref) {
    return at::arange(static_cast<std::int64_t>(ref.bytes()), at::kByte);
  });
}

std::string text(const std::string& content) {
  const auto n = static_cast<std::uint32_t>(content.size());
  return "X" + std::string(reinterpret_cast<const char*>(&n), 4) + content;
}

std::string storage(const std::string& type, int elements) {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text("0") + text("cpu") + "K" +
         std::string(1, static_cast<char>(elements)) + "tQ";
}

TEST_CASE("scalars of all opcodes") {
  CHECK(load("N.").is_none());
  CHECK(load("\x88.").as_bool());
  CHECK(load("J\xff\xff\xff\xff.").as_int() == -1);
  CHECK(load("M\x01\x02.").as_int() == 0x201);
  CHECK(load("\x8a\x01\x80.").as_int() == -128);
  CHECK(load("\x8a\x00."s).as_int() == 0);
  CHECK(load("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s).as_int() ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(load("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s).as_double() == 1.5);
  CHECK(load("\x80\x04\x8c\x03"
             "abc.")
            .as_string() == "abc");
  CHECK(load("U\x03"
             "abc.")
            .as_string() == "abc");
  CHECK(load("C\x03"
             "abc.")
            .as_bytes() == "abc");
  CHECK(load("c_codecs\nencode\n" + text("a\xc3\xbf") + text("latin1") + "\x86R.").as_bytes() ==
        "a\xff");
}

TEST_CASE("containers") {
  CHECK(same(load("(K\x01K\x02K\x03t."), Value::tuple({1, 2, 3})));
  CHECK(same(load("K\x01K\x02\x86."), Value::tuple({1, 2})));
  CHECK(same(load("](K\x01K\x02"
                  "e."),
             Value::list({1, 2})));
  CHECK(same(load("]K\x01"
                  "a."),
             Value::list({1})));
  CHECK(same(load("(K\x01K\x02l."), Value::list({1, 2})));
  CHECK(same(load("\x80\x04\x8f(K\x01K\x02\x90."), Value::list({1, 2})));
  CHECK(same(load("(K\x01K\x02"
                  "d."),
             Value::dict({{1, 2}})));
  // A key that is set twice keeps its place.
  CHECK(same(load("}(" + text("a") + "K\x01" + text("b") + "K\x02" + text("a") + "K\x03u."),
             Value::dict({{"a", 3}, {"b", 2}})));
  // Shared through the memo.
  CHECK(same(load("]q\x00K\x01"
                  "ah\x00\x86."s),
             Value::tuple({Value::list({1}), Value::list({1})})));
  // A state_dict as Python pickles it: an OrderedDict that carries _metadata.
  const Value state = load("ccollections\nOrderedDict\n)R(" + text("w") + "K\x01u}" +
                           text("_metadata") + "ccollections\nOrderedDict\n)RsbK\x05\x86.");
  CHECK(same(state.items()[0], Value::ordered_dict({{"w", 1}})));
  CHECK(state.items()[0].is_ordered());
}

TEST_CASE("tensors and numpy values") {
  const std::string rebuild = "ctorch._utils\n_rebuild_tensor_v2\n(";
  const Value value = load(rebuild + storage("ByteStorage", 6) + "K\x01(K\x02K\x02tK\x02K\x01\x86" +
                           "\x89N" + "tR.");
  CHECK(at::equal(value.as_tensor(), at::tensor({1, 2, 3, 4}, at::kByte).view({2, 2})));
  const Value parameter = load("ctorch._utils\n_rebuild_parameter\n(" + rebuild +
                               storage("FloatStorage", 1) + "K\x00))\x89Nt"s + "R\x88N" + "tR.");
  CHECK(parameter.as_tensor().scalar_type() == at::kFloat);
  CHECK(parameter.as_tensor().dim() == 0);
  const std::string f8 = "cnumpy\ndtype\n(" + text("f8") + "K\x00K\x01tR(K\x03"s + text("<") +
                         "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"s;
  const Value number = load("cnumpy.core.multiarray\nscalar\n" + f8 +
                            "C\x08\x00\x00\x00\x00\x00\x00\xf8\x3f\x86R."s);
  CHECK(number.kind() == Value::Kind::kFloat);
  CHECK(number.as_double() == 1.5);
  const Value array = load(
      "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85"
      "C\x01"
      "b\x87R(K\x01K\x01\x85"s +
      f8 + "\x89" + "C\x08\x00\x00\x00\x00\x00\x00\xf8\x3ftb."s);
  CHECK(at::equal(array.as_tensor(), at::tensor({1.5}, at::kDouble)));
  CHECK(load("ctorch\nSize\n(K\x02K\x03t\x85R.").items().size() == 2);
  CHECK(load("ctorch\nfloat32\n.").as_string() == "torch.float32");
}

TEST_CASE("a class is a name and its state, never code") {
  const Value object = load("cmy.module\nResize\n)\x81}" + text("size") + "K\x40" + "sb.");
  CHECK(object.is_object());
  CHECK(object.type() == "my.module.Resize");
  CHECK(object.state()["size"].as_int() == 64);
  CHECK(same(load("cmy.module\nMode\n" + text("a") + "\x85R.").args(), Value::tuple({"a"})));
  const Value subclass = load("cmy.module\nConfig\n)R" + text("k") + "K\x01s.");
  CHECK(subclass.contents()["k"].as_int() == 1);
}

TEST_CASE("what runs code is refused by name and never runs") {
  const auto marker = std::filesystem::temp_directory_path() / "sgtrain_pickle_ran";
  std::filesystem::remove(marker);
  const std::string command = text("touch " + marker.string());
  for (const std::string name : {"os\nsystem\n", "posix\nsystem\n", "subprocess\nPopen\n",
                                 "builtins\neval\n", "builtins\nexec\n", "__builtin__\nopen\n",
                                 "builtins\n__import__\n", "importlib\nimport_module\n"}) {
    INFO(name);
    CHECK_THROWS_AS(load("c" + name + command + "\x85R."), core::InputError);
    CHECK_THROWS_WITH(load("c" + name + command + "\x85R."), Catch::Contains("refused"));
  }
  CHECK_THROWS_WITH(load("\x80\x04" + text("os") + text("system") + "\x93" + command + "\x85R."),
                    Catch::Contains("'os.system'"));
  // Unknown, so it stays a name.
  CHECK(load("cos2\nsystem\n" + command + "\x85R.").type() == "os2.system");
  CHECK_FALSE(std::filesystem::exists(marker));
}

TEST_CASE("broken pickles are errors that name the file and the byte") {
  for (const std::string& bad : {""s,
                                 "("s,
                                 "K"s,
                                 "t."s,
                                 "0."s,
                                 "a."s,
                                 "K\x01"
                                 "a."s,
                                 "R."s,
                                 "NNR."s,
                                 "h\x07."s,
                                 "X\xff\xff\xff\xff"
                                 "abc."s,
                                 "\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
                                 "abc."s,
                                 "cos"s,
                                 "}(K\x01u."s,
                                 "(K\x01\x81."s,
                                 "\x80\x09."s,
                                 "i."s,
                                 "I1\n."s,
                                 "NNb."s,
                                 "NQ."s,
                                 "ccollections\nOrderedDict\nNR."s,
                                 "ctorch._utils\n_rebuild_tensor_v2\n)R."s}) {
    INFO(bad);
    CHECK_THROWS_AS(load(bad), core::InputError);
    CHECK_THROWS_WITH(load(bad), Catch::Contains("test.pth") && Catch::Contains("byte"));
  }
}

TEST_CASE("tensors must lie in their storage") {
  const auto tensor = [](const std::string& offset, const std::string& sizes,
                         const std::string& strides) {
    return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage("FloatStorage", 4) + offset + sizes +
           strides + "\x89NtR.";
  };
  CHECK(load(tensor("K\x00"s, "K\x04\x85", "K\x01\x85")).as_tensor().numel() == 4);
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  for (const std::string& bad :
       {tensor("K\x01", "K\x04\x85", "K\x01\x85"), tensor("K\x00"s, "K\x05\x85", "K\x01\x85"),
        tensor("K\x00"s, huge + "\x85", "K\x00\x85"s),
        tensor("K\x00"s, huge + "\x85", huge + "\x85"),
        tensor("K\x00"s, "J\xff\xff\xff\xff\x85", "K\x01\x85"),
        tensor("J\xff\xff\xff\xff", "K\x01\x85", "K\x01\x85"),
        tensor(huge, "K\x01\x85", "K\x01\x85"), tensor("K\x00"s, "K\x04\x85", ")")}) {
    CHECK_THROWS_AS(load(bad), core::InputError);
  }
}

TEST_CASE("bombs are refused in a moment") {
  std::string nested = std::string(1000, ']');
  for (int i = 0; i < 999; ++i) nested += 'a';
  CHECK_THROWS_WITH(load(nested + "."), Catch::Contains("too deeply"));
  std::string tuples = ")";
  for (int i = 0; i < 1'000'000; ++i) tuples += '\x85';
  CHECK_THROWS_WITH(load(tuples + "."), Catch::Contains("too deeply"));
  CHECK_THROWS_WITH(load("]q\x00h\x00"
                         "a."s),
                    Catch::Contains("contains itself"));
  // Each list holds the one before ten times: 10^40 values from 2 KiB.
  std::string laughs = "]q\x00";
  laughs = "]q"s + '\0';
  for (int i = 1; i < 40; ++i) {
    laughs += "](";
    for (int k = 0; k < 10; ++k) laughs += "h"s + static_cast<char>(i - 1);
    laughs += "eq"s + static_cast<char>(i);
  }
  CHECK_THROWS_WITH(load(laughs + "."), Catch::Contains("too many"));
  CHECK_THROWS_WITH(load(std::string(6'000'000, 'N') + "."), Catch::Contains("too many"));
}

}  // namespace
}  // namespace sgtrain::tensor
