#include "core/node.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/registry.h"
#include "core/yaml.h"

namespace sgtrain::core {
namespace {

struct Reader {
  explicit Reader(const std::string& yaml)
      : problems(std::make_shared<Problems>()), node(parse_yaml(yaml, "r.yaml"), problems) {}
  /// All problems as "where: path: text" lines.
  std::string all() const {
    std::string out;
    for (const auto& item : problems->items())
      out += item.where + ": " + item.path + ": " + item.text + "\n";
    return out;
  }
  std::shared_ptr<Problems> problems;
  Node node;
};

TEST_CASE("Values convert to the type that is asked for") {
  Reader r(
      "i: 3\nf: 2.5\nwhole: 4.0\nb: true\none: 1\ns: text\nn: 5\nexp: '1e-6'\nl: [1, 2.5]\n"
      "words: [a, b]\nnested: [[1, 2], [3]]\nnul: null\n");
  CHECK(r.node.get<int>("i").value() == 3);
  CHECK(r.node.get<double>("i").value() == 3.0);
  CHECK(r.node.get<double>("f").value() == 2.5);
  CHECK(r.node.get<int>("whole").value() == 4);
  CHECK(r.node.get<bool>("b").value());
  CHECK(r.node.get<bool>("one").value());
  CHECK(r.node.get<std::string>("s").value() == "text");
  CHECK(r.node.get<std::string>("n").value() == "5");
  CHECK(r.node.get<double>("exp").value() == 1e-6);
  CHECK(r.node.get<std::vector<double>>("l").value() == std::vector<double>{1, 2.5});
  CHECK(r.node.get<std::vector<std::string>>("words").value() ==
        std::vector<std::string>{"a", "b"});
  CHECK(r.node.get<std::vector<std::vector<double>>>("nested").value().at(1).at(0) == 3.0);
  CHECK(r.node.get_or("nul", 7).value() == 7);
  CHECK(r.node.get_or("absent", "x").value() == "x");
  CHECK_FALSE(r.node.find<int>("nul").has_value());
  CHECK(r.node.find<int>("i") == 3);
  r.node.report_unread();
  CHECK(r.all().empty());
}

TEST_CASE("Six mistakes are six messages of one error") {
  Reader r(
      "max_epochs: none\n"  // wrong type
      "lr: -1\n"            // out of range
      "'momentum ': 0.9\n"  // blank at the border
      "seeed: 4\n"          // misspelt
      "mode: cosin\n"       // not one of the names
      "size: ???\n");       // no value
  r.node.get<int>("max_epochs").min(1);
  r.node.get_or("lr", 0.1).above(0.0);
  r.node.get_or("momentum", 0.9);
  r.node.get_or("seed", 42);
  r.node.get_or("mode", "cosine").one_of({"cosine", "poly", "step"});
  r.node.get<int>("size");
  r.node.report_unread();
  REQUIRE(r.problems->items().size() == 6);
  try {
    r.problems->throw_if_any("recipe r.yaml");
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(error.exit_code() == ExitCode::kBadInput);
    const std::string text = error.what();
    INFO(text);
    CHECK(text.starts_with("recipe r.yaml: 6 mistakes\n"));
    const std::vector<std::string> in_order = {
        "r.yaml:1: max_epochs: expected integer, found a text 'none'",
        "r.yaml:2: lr: must be above 0, found -1",
        "r.yaml:3: momentum : unknown key (the key has a blank at its border), did you mean "
        "'momentum'?",
        "r.yaml:4: seeed: unknown key, did you mean 'seed'?",
        "r.yaml:5: mode: must be one of cosine, poly, step, found 'cosin', did you mean 'cosine'?",
        "r.yaml:6: size: no value given (\?\?\?)"};
    std::size_t at = 0;
    for (const std::string& line : in_order) {
      INFO(line);
      at = text.find(line, at);
      REQUIRE(at != std::string::npos);
    }
  }
}

TEST_CASE("Problems are sorted by file and line, and said once") {
  Problems problems;
  problems.add("b.yaml:2", "x", "later file");
  problems.add("a.yaml:10", "x", "ten");
  problems.add("a.yaml:9", "x", "nine");
  problems.add("a.yaml:9", "x", "nine");
  CHECK(problems.items().size() == 3);
  try {
    problems.throw_if_any("t");
    FAIL("no error");
  } catch (const InputError& error) {
    const std::string text = error.what();
    CHECK(text.find("nine") < text.find("ten"));
    CHECK(text.find("ten") < text.find("later"));
    CHECK(text.starts_with("t: 3 mistakes"));
  }
  CHECK_NOTHROW(Problems().throw_if_any("t"));
}

TEST_CASE("Bounds are checked at the read and the value stays usable") {
  Reader r("a: 5\nb: [1, 9]\nc: 0\nd: 1\n");
  CHECK(r.node.get<int>("a").in(1, 4).value() == 5);
  r.node.get<std::vector<int>>("b").in(0, 8);
  r.node.get<double>("c").above(0);
  r.node.get<int>("d").min(1).max(1);
  r.node.get_or("absent", -5).min(1);  // a default is right by definition
  CHECK(r.all() ==
        "r.yaml:1: a: must be in [1, 4], found 5\n"
        "r.yaml:2: b: must be in [0, 8], found 9\n"
        "r.yaml:3: c: must be above 0, found 0\n");
}

TEST_CASE("A wrong type is one problem, not two") {
  Reader r("a: text\nb: [1, x]\n");
  CHECK(r.node.get<int>("a").min(1).value() == 0);
  CHECK(r.node.get_or("b", std::vector<int>{7}).min(1).value() == std::vector<int>{7});
  CHECK(r.problems->items().size() == 2);
}

TEST_CASE("A required key that is absent, null or missing") {
  Reader r("nul:\nmissing: ???\n");
  r.node.get<int>("absent").min(3);
  r.node.get<int>("nul");
  r.node.get<int>("missing");
  r.node.component("loss");
  const std::string all = r.all();
  CHECK(all.find("absent: required, but not given") != std::string::npos);
  CHECK(all.find("r.yaml:1: nul: required, but not given") != std::string::npos);
  CHECK(all.find("r.yaml:2: missing: no value given (\?\?\?)") != std::string::npos);
  CHECK(all.find("loss: required, but not given") != std::string::npos);
  CHECK(r.problems->items().size() == 4);
}

TEST_CASE("Integers must be whole and fit") {
  Reader r("a: 2.5\nb: 3000000000\nc: 99999999999999999999\n");
  r.node.get<int>("a");
  r.node.get<int>("b");
  CHECK(r.node.get<std::int64_t>("b").value() == 3'000'000'000);
  r.node.get<std::int64_t>("c");
  CHECK(r.problems->items().size() == 3);
}

TEST_CASE("Aliases are one key") {
  Reader r("grad_accum_steps: 4\nclip_grad: 1\nclip_grad_norm: 2\nnul_name:\nother_name: 3\n");
  CHECK(r.node.get_or("batch_accumulate|grad_accum_steps", 1).value() == 4);
  CHECK(r.node.get_or("clip_grad_norm|clip_grad", 0.0).value() == 2.0);
  CHECK(r.node.get_or("nul_name|other_name", 0).value() == 3);
  r.node.report_unread();
  CHECK(r.all() ==
        "r.yaml:2: clip_grad: given twice: 'clip_grad' is another name of 'clip_grad_norm'\n");
}

TEST_CASE("Unread keys are reported at every depth with the nearest asked name") {
  Reader r(
      "train:\n  max_epoch: 3\n  ema_params:\n    decai: 0.9\nextra: {a: 1}\nlist:\n  - {x: 1, y: "
      "2}\n");
  Node train = r.node.child("train");
  train.get_or("max_epochs", 1);
  train.child("ema_params").get_or("decay", 0.99);
  r.node.child("list").item(0).get<int>("x");
  r.node.report_unread();
  CHECK(r.all() ==
        "r.yaml:2: train.max_epoch: unknown key, did you mean 'max_epochs'?\n"
        "r.yaml:4: train.ema_params.decai: unknown key, did you mean 'decay'?\n"
        "r.yaml:5: extra: unknown key\n"
        "r.yaml:7: list.0.y: unknown key\n");
  Reader all("free: {form: {of: [map]}}\n");
  all.node.child("free").read_all();
  all.node.report_unread();
  CHECK(all.problems->empty());
}

TEST_CASE("Components: name, one-key map, _target_") {
  Reader r(
      "plain: Accuracy\n"
      "with_params: {DetectionMetrics: {score: 0.1}}\n"
      "without: {Top5: }\n"
      "target: {_target_: a.b.SomeLoss, weight: 2}\n"
      "list: [Accuracy, {Top5: {k: 5}}]\n"
      "single: Accuracy\n");
  CHECK(r.node.component("plain").name == "Accuracy");
  Component metrics = r.node.component("with_params");
  CHECK(metrics.name == "DetectionMetrics");
  CHECK(metrics.params.get<double>("score").value() == 0.1);
  CHECK(r.node.component("without").name == "Top5");
  Component target = r.node.component("target");
  CHECK(target.name == "SomeLoss");
  CHECK(target.params.get<int>("weight").value() == 2);
  auto list = r.node.components("list");
  REQUIRE(list.size() == 2);
  CHECK(list[1].params.get<int>("k").value() == 5);
  CHECK(r.node.components("single").size() == 1);
  CHECK(r.node.components("absent").empty());
  CHECK_FALSE(r.node.find_component("absent").has_value());
  r.node.report_unread();
  CHECK(r.all().empty());
}

TEST_CASE("Parameters that are indented too little are explained with the corrected YAML") {
  Reader r("transforms:\n  - DetectionMosaic:\n    prob: 1.0\n    size: 640\n");
  r.node.components("transforms");
  REQUIRE(r.problems->items().size() == 1);
  const auto& item = r.problems->items().front();
  CHECK(item.where == "r.yaml:2");
  CHECK(item.path == "transforms.0");
  INFO(item.text);
  CHECK(item.text.find("are its parameters indented too little? Write:\n"
                       "      - DetectionMosaic:\n          prob: 1.0\n          size: 640") !=
        std::string::npos);
  r.node.report_unread();
  CHECK(r.problems->items().size() == 1);
}

TEST_CASE("Component mistakes") {
  Reader r("number: 3\nparams: {Name: 5}\n");
  r.node.component("number");
  r.node.component("params");
  CHECK(r.all().find("number: expected a name or {Name: {parameters}}, found an integer '3'") !=
        std::string::npos);
  CHECK(r.all().find("params.Name: parameters must be a map, found an integer '5'") !=
        std::string::npos);
}

TEST_CASE("What was reported as unresolved is not reported again") {
  Reader r("lr: ${x}\nloss: ${y}\nsizes: [1, '${z}']\n");
  for (const char* path : {"lr", "loss", "sizes.1"})
    r.node.tree()->find_path(path)->unresolved = true;
  CHECK(r.node.get<double>("lr").above(0).value() == 0.0);
  CHECK(r.node.get_or("sizes", std::vector<int>{4}).min(1).value() == std::vector<int>{4});
  CHECK(r.node.component("loss").name.empty());
  r.node.report_unread();
  CHECK(r.all().empty());
}

class Shape {
 public:
  using Registry = core::Registry<Shape>;
  static Registry& registry() {
    static Registry r("shape");
    return r;
  }
  virtual ~Shape() = default;
  virtual double area() const = 0;
};

class Square final : public Shape {
 public:
  struct Params {
    double side = 1.0;
    std::vector<int> colors;
    static Params from(Node& n) {
      return {.side = n.get_or("side|edge", 1.0).above(0.0).help("metres"),
              .colors = n.get<std::vector<int>>("colors").in(0, 255)};
    }
  };
  explicit Square(Params p) : p_(std::move(p)) {}
  double area() const override { return p_.side * p_.side; }

 private:
  Params p_;
};
SGTRAIN_REGISTER(Shape, Square, "Square", "tetragon");

TEST_CASE("A registry parses, builds and describes") {
  Reader r(
      "shape: {squ_are: {edge: 3, colors: [1]}}\nbad: {Square: {side: 0, colours: [1]}}\nno: "
      "{Squares: {a: 1}}\n");
  auto maker = Shape::registry().parse(r.node.component("shape"));
  REQUIRE(maker);
  CHECK(maker()->area() == 9.0);
  CHECK(r.problems->empty());
  Shape::registry().parse(r.node.component("bad"));
  CHECK_FALSE(Shape::registry().parse(r.node.component("no")));
  r.node.report_unread();
  const std::string all = r.all();
  INFO(all);
  CHECK(all.find("bad.Square.side: must be above 0, found 0") != std::string::npos);
  CHECK(all.find("bad.Square.colors: required, but not given") != std::string::npos);
  CHECK(all.find("bad.Square.colours: unknown key, did you mean 'colors'?") != std::string::npos);
  CHECK(all.find("unknown shape 'Squares', did you mean 'Square'? (known: Square)") !=
        std::string::npos);
  CHECK(r.problems->items().size() == 4);

  const auto docs = Shape::Registry::describe(Shape::registry().entries().front());
  REQUIRE(docs.size() == 2);
  CHECK(docs[0].key == "side");
  CHECK(docs[0].type == "number");
  CHECK(docs[0].default_value == "1");
  CHECK(docs[0].bounds == "above 0");
  CHECK(docs[0].help == "metres");
  CHECK_FALSE(docs[0].required);
  CHECK(docs[1].key == "colors");
  CHECK(docs[1].type == "list of integer");
  CHECK(docs[1].required);
}

TEST_CASE("Tree: paths, copies, equality") {
  const TreePtr tree = parse_yaml("a: {b: [1, {c: 2}]}\nd: 1.0\n", "t.yaml");
  CHECK(tree->find_path("a.b.1.c")->integer == 2);
  CHECK(tree->find_path("a.b.2") == nullptr);
  CHECK(tree->find_path("a.b.x") == nullptr);
  CHECK(tree->find_path("d.e") == nullptr);
  const TreePtr copy = tree->clone();
  CHECK(equal(*tree, *copy));
  copy->find_path("a.b.1")->set("c", Tree::of(std::int64_t{3}));
  CHECK_FALSE(equal(*tree, *copy));
  CHECK(tree->find_path("a.b.1.c")->integer == 2);
  CHECK_FALSE(equal(*Tree::of(1.0), *Tree::of(std::int64_t{1})));
  CHECK_FALSE(equal(*parse_yaml("{a: 1, b: 2}", "x"), *parse_yaml("{b: 2, a: 1}", "x")));
  CHECK(copy->erase("d"));
  CHECK_FALSE(copy->erase("d"));
}

}  // namespace
}  // namespace sgtrain::core
