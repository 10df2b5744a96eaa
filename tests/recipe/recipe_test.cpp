#include "recipe/recipe.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml.h"
#include "core/yaml_writer.h"
#include "recipe/overrides.h"
#include "support/temp_dir.h"

namespace sgtrain {
namespace {

namespace fs = std::filesystem;
using core::Tree;
using Json = nlohmann::ordered_json;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string error_of(const recipe::LoadOptions& options) {
  try {
    recipe::load(options);
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Where two trees differ first; empty when they are equal. Types and key order count.
std::string difference(const Tree& got, const Json& want, const std::string& path = "") {
  const std::string here = path.empty() ? "the top" : path;
  if (want.is_string() && want.get<std::string>().starts_with("!")) {
    return got.unresolved && has(got.text, "${") ? "" : here + ": " + want.dump() + " expected";
  }
  if (want.is_string() && want == "???")
    return got.kind == Tree::Kind::kMissing ? "" : here + ": ???";
  const auto unless = [&](bool same) {
    return same ? "" : here + ": " + want.dump() + " expected, found '" + got.text + "'";
  };
  switch (got.kind) {
    case Tree::Kind::kNull:
      return unless(want.is_null());
    case Tree::Kind::kBool:
      return unless(want.is_boolean() && want == got.boolean);
    case Tree::Kind::kInt:
      return unless(want.is_number_integer() && want == got.integer);
    case Tree::Kind::kFloat:
      return unless(want.is_number_float() && want.get<double>() == got.real);
    case Tree::Kind::kString:
      return unless(want.is_string() && want == got.text);
    case Tree::Kind::kMissing:
      return here + ": unexpected ???";
    case Tree::Kind::kList:
      if (!want.is_array() || want.size() != got.list.size()) return unless(false);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const std::string below = difference(*got.list[i], want[i], path + "." + std::to_string(i));
        if (!below.empty()) return below;
      }
      return "";
    case Tree::Kind::kMap:
      break;
  }
  if (!want.is_object()) return unless(false);
  std::vector<std::string> keys, wanted;
  for (const auto& [key, value] : got.map) keys.push_back(key);
  for (const auto& [key, value] : want.items()) wanted.push_back(key);
  if (keys != wanted)
    return here + ": keys " + core::join(wanted) + " expected, found " + core::join(keys);
  for (const auto& [key, value] : got.map) {
    const std::string below = difference(*value, want[key], path + "." + key);
    if (!below.empty()) return below;
  }
  return "";
}

TEST_CASE("All recipes of the super-gradients wheel compose to Hydra's trees", "[peer]") {
  const char* folder = std::getenv("SGTRAIN_SG_RECIPES");
  if (folder == nullptr || !fs::is_directory(folder)) {
    std::cout << "skipped: set SGTRAIN_SG_RECIPES to the wheel's recipes "
                 "(scripts/fetch_sg_recipes.sh DIR)\n";
    return;
  }
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(SGTRAIN_GOLDEN_DIR) / "recipes")) {
    const Json golden = Json::parse(std::ifstream(entry.path()));
    INFO(entry.path().filename().string());
    recipe::LoadOptions options;
    options.recipe = (fs::path(folder) / (golden["recipe"].get<std::string>() + ".yaml")).string();
    for (const auto& text : golden["overrides"]) options.overrides.push_back(text);
    options.allow_missing = true;
    options.apply_shortcuts = false;
    options.problems = std::make_shared<core::Problems>();
    const recipe::Recipe got = recipe::load(options);
    CHECK(difference(*got.tree, golden["config"]) == "");
    // Only a parent recipe names a key that its children give.
    for (const auto& problem : options.problems->items()) CHECK(problem.path == "experiment_name");
    CHECK(options.problems->items().size() == (golden["recipe"] == "cityscapes_segformer" ? 1 : 0));
    ++count;
  }
  CHECK(count == 55);
}

TEST_CASE("The shipped recipes load, and have the reference's values where they share a name") {
  const auto names = recipe::list_recipes();
  for (const char* wanted :
       {"quickstart", "cifar10_resnet", "imagenet_resnet50", "imagenet_mobilenetv2",
        "coco2017_yolo_nas_s", "coco2017_yolo_nas_m", "coco2017_yolo_nas_l", "yolo_nas_coco",
        "yolo_nas_finetune", "bccd_yolo_nas_s"}) {
    INFO(wanted);
    CHECK(std::find(names.begin(), names.end(), wanted) != names.end());
    recipe::LoadOptions options;
    options.recipe = wanted;
    if (std::string(wanted) == "yolo_nas_finetune")
      options.overrides = {"data_dir=x", "class_names=[a,b]"};
    CHECK_NOTHROW(recipe::load(options));
  }

  // Keys of the reference's trees that ours write in another form, or leave to the code's default.
  const std::set<std::string> other_form = {"lr_updates",
                                            "step_lr_update_freq",
                                            "strict_load",
                                            "_convert_",
                                            "collate_fn",
                                            "post_prediction_callback",
                                            "download",
                                            "torch_compile_options",
                                            "experiment_name",
                                            "load_checkpoint",
                                            "data_loader_num_workers",
                                            "_target_"};
  for (const char* name :
       {"cifar10_resnet", "imagenet_resnet50", "imagenet_mobilenetv2", "coco2017_yolo_nas_s"}) {
    INFO(name);
    recipe::LoadOptions options;
    options.recipe = name;
    options.apply_shortcuts = false;
    const recipe::Recipe ours = recipe::load(options);
    const Json golden = Json::parse(
        std::ifstream(fs::path(SGTRAIN_GOLDEN_DIR) / "recipes" / (std::string(name) + ".json")));
    std::size_t compared = 0;
    const std::function<void(const Json&, const std::string&)> walk = [&](const Json& want,
                                                                          const std::string& path) {
      for (const auto& [key, value] : want.items()) {
        if (want.is_object() && other_form.contains(key)) continue;
        const std::string below = path.empty() ? key : path + "." + key;
        if (std::string(name) == "cifar10_resnet" &&
            (below == "dataset_params.batch_size" || below == "dataset_params.val_batch_size"))
          continue;
        if (value.is_structured() && !value.empty()) {
          walk(value, below);
          continue;
        }
        const core::TreePtr got = ours.tree->find_path(below);
        INFO(below);
        REQUIRE(got);
        CHECK(difference(*got, value) == "");
        ++compared;
      }
    };
    walk(golden["config"], "");
    CHECK(compared > 60);
  }
}

TEST_CASE("What Ultralytics and SuperGradients users type works on the shipped recipes") {
  recipe::LoadOptions options;
  options.recipe = "yolo_nas_coco.yaml";
  options.overrides = {
      "model=yolo_nas_l",
      "imgsz=512",
      "epochs=5",
      "batch=4",
      "workers=2",
      "patience=3",
      "device=cpu",
      "training_hyperparams.optimizer_params.weight_decay=0.01",
      "dataset_params.train_dataset_params.transforms.0.DetectionRandomAffine.degrees=5"};
  const core::TreePtr tree = recipe::load(options).tree;
  const auto at = [&](const char* path) {
    INFO(path);
    REQUIRE(tree->find_path(path));
    return core::write_yaml_inline(*tree->find_path(path));
  };
  CHECK(at("architecture") == "yolo_nas_l");
  CHECK(at("experiment_name") == "coco2017_yolo_nas_l");
  CHECK(at("arch_params.heads.NDFLHeads.heads_list.0.YoloNASDFLHead.width_mult") == "1");
  CHECK(at("arch_params.num_classes") == "80");
  CHECK(at("dataset_params.train_dataset_params.input_dim") == "[512, 512]");
  CHECK(at("dataset_params.val_dataset_params.input_dim") == "[508, 508]");
  CHECK(at("dataset_params.train_dataloader_params.batch_size") == "4");
  CHECK(at("dataset_params.val_dataloader_params.num_workers") == "2");
  CHECK(at("training_hyperparams.max_epochs") == "5");
  CHECK(at("training_hyperparams.optimizer_params.weight_decay") == "0.01");
  CHECK(at("training_hyperparams.phase_callbacks.0.EarlyStop.monitor") == "mAP@0.50:0.95");
  CHECK(at("dataset_params.train_dataset_params.transforms.0.DetectionRandomAffine.degrees") ==
        "5");
  CHECK(at("device") == "cpu");
  CHECK_FALSE(tree->find("imgsz"));
}

TEST_CASE("Recipes are found as a path, in own folders, among the shipped ones") {
  const support::TempDir dir;
  write(dir.path() / "mine/own.yaml",
        "defaults:\n  - training_hyperparams: special\n  - _self_\nwho: mine\n");
  write(dir.path() / "mine/training_hyperparams/special.yaml",
        "defaults:\n  - default_train_params\nmax_epochs: 7\n");
  write(dir.path() / "other/own.yml", "who: other\n");
  write(dir.path() / "other/quickstart.yaml", "who: my quickstart\n");
  const auto who = [](const recipe::LoadOptions& options) {
    return recipe::load(options).tree->find("who")->text;
  };

  recipe::LoadOptions by_path;
  by_path.recipe = (dir.path() / "mine/own.yaml").string();
  const recipe::Recipe got = recipe::load(by_path);
  CHECK(got.file == dir.path() / "mine/own.yaml");
  CHECK(got.tree->find_path("training_hyperparams.max_epochs")->integer == 7);
  CHECK(got.tree->find_path("training_hyperparams.seed")->integer == 42);  // from the shipped group
  CHECK(got.sources.size() == 3);
  by_path.recipe = (dir.path() / "mine/own").string();
  CHECK(who(by_path) == "mine");

  recipe::LoadOptions by_name;
  by_name.recipe = "own";
  by_name.config_dirs = {dir.path() / "other", dir.path() / "mine"};
  CHECK(who(by_name) == "other");
  by_name.config_dirs = {dir.path() / "mine", dir.path() / "other"};
  by_name.recipe = "own.yaml";
  CHECK(who(by_name) == "mine");
  by_name.recipe = "quickstart";  // own folders come first
  CHECK(who(by_name) == "my quickstart");
  const auto names = recipe::list_recipes(by_name.config_dirs);
  CHECK(std::find(names.begin(), names.end(), "own") != names.end());
}

TEST_CASE("An unknown recipe lists what there is and every path tried") {
  const support::TempDir dir;
  write(dir.path() / "zoo/my_recipe.yaml", "a: 1\n");
  recipe::LoadOptions options;
  options.recipe = "quikstart";
  options.config_dirs = {dir.path() / "zoo"};
  const std::string text = error_of(options);
  INFO(text);
  CHECK(has(text, "there is no recipe 'quikstart', did you mean 'quickstart'?"));
  CHECK(has(text, "my_recipe"));
  CHECK(has(text, "yolo_nas_coco"));
  CHECK(has(text, (fs::current_path() / "quikstart.yaml").string()));
  CHECK(has(text, (dir.path() / "zoo/quikstart.yaml").string()));
  CHECK(has(text, "/share/sgtrain/recipes/quikstart.yaml"));
  CHECK(has(text, (fs::path(SGTRAIN_SOURCE_DIR) / "recipes/quikstart.yaml").string()));

  options.recipe = "";
  CHECK(has(error_of(options), "no recipe is given"));
  options.recipe = "x";
  options.config_dirs = {dir.path() / "nowhere"};
  CHECK(has(error_of(options), "the recipe folder does not exist"));
}

TEST_CASE("Mistakes of values and of readers are listed together") {
  const support::TempDir dir;
  write(dir.path() / "r.yaml",
        "max_epochs: none\n"
        "lr: ${nothing}\n"
        "size: ???\n"
        "used: 3\n"
        "twice: ${mul:${used},2}\n"
        "exttra: 1\n");
  recipe::LoadOptions options;
  options.recipe = (dir.path() / "r.yaml").string();
  options.overrides = {"max_epoch=3", "unknown.key=1"};
  options.problems = std::make_shared<core::Problems>();
  options.apply_shortcuts = false;
  const recipe::Recipe got = recipe::load(options);
  core::Node root(got.tree, options.problems);
  root.get<int>("max_epochs").min(1);
  root.get<double>("lr").above(0.0);
  root.get<int>("size").min(1);
  root.get<int>("twice").in(6, 6);
  root.get_or("extra", 0);
  root.report_unread();
  std::string all;
  for (const auto& item : options.problems->items())
    all += item.where + ": " + item.path + ": " + item.text + "\n";
  INFO(all);
  CHECK(options.problems->items().size() == 6);  // `used` was read by the interpolation
  CHECK(
      has(all, "command line: max_epoch=3: there is no key 'max_epoch', did you mean max_epochs?"));
  CHECK(has(all, "command line: unknown.key=1: there is no key 'unknown.key'"));
  CHECK(has(all, "r.yaml:1: max_epochs: expected integer, found a text 'none'"));
  CHECK(has(all, "r.yaml:2: lr: the interpolation ${nothing} finds no key 'nothing'"));
  CHECK(has(all, "r.yaml:3: size: no value is given (\?\?\?), write size=..."));
  CHECK(has(all, "r.yaml:6: exttra: unknown key, did you mean 'extra'?"));
}

TEST_CASE("Keys that interpolations read count as read, also in the written recipe") {
  const support::TempDir dir;
  write(dir.path() / "r.yaml",
        "suffix: _x\nroot: {a: {b: 1, c: 2}}\nname: run${suffix}\nval: ${root.a.b}\n");
  recipe::LoadOptions options;
  options.recipe = (dir.path() / "r.yaml").string();
  for (int round = 0; round < 3; ++round) {
    options.problems = std::make_shared<core::Problems>();
    options.apply_shortcuts = false;
    const recipe::Recipe got = recipe::load(options);
    CHECK(got.variables == std::set<std::string>{"root.a.b", "suffix"});
    core::Node root(got.tree, options.problems);
    CHECK(root.get<std::string>("name").value() == "run_x");
    CHECK(root.get<int>("val").value() == 1);
    root.report_unread();
    REQUIRE(options.problems->items().size() == 1);
    CHECK(options.problems->items().front().path == "root.a.c");
    write(dir.path() / "again.yaml", recipe::to_yaml(got));
    options.recipe = (dir.path() / "again.yaml").string();
  }
}

TEST_CASE("A written recipe is the same run, whatever its texts hold") {
  const support::TempDir dir;
  write(dir.path() / "r.yaml",
        "literal: \\${not.me}\nslashes: '\\\\\\${x}'\nboth: a_\\${b}_${c}\nc: \"1\"\nnumber_text: "
        "'1e-6'\n"
        "off_text: 'Off'\nfloat: 1e-6\ntext: |\n  two\n  lines\nnan: .nan\nnames: ['null', ~, 'a: "
        "b', '#']\n");
  recipe::LoadOptions options;
  options.recipe = (dir.path() / "r.yaml").string();
  options.overrides = {"++lr=0.5", "+added={a: [1, '2', null]}", "+wide=中文"};
  const recipe::Recipe first = recipe::load(options);
  CHECK(first.tree->find("literal")->text == "${not.me}");
  CHECK(first.tree->find("slashes")->text == "\\${x}");
  CHECK(first.tree->find("both")->text == "a_${b}_1");
  write(dir.path() / "again.yaml", recipe::to_yaml(first));
  recipe::LoadOptions again;
  again.recipe = (dir.path() / "again.yaml").string();
  const recipe::Recipe second = recipe::load(again);
  INFO(recipe::to_yaml(first));
  CHECK(core::equal(*first.tree, *second.tree));
  CHECK(recipe::to_yaml(first) == recipe::to_yaml(second));
}

TEST_CASE("Every value of the command line says so") {
  const support::TempDir dir;
  write(dir.path() / "r.yaml", "a: 1\nb: 2\n");
  recipe::LoadOptions options;
  options.recipe = (dir.path() / "r.yaml").string();
  options.overrides = {"a=3"};
  const recipe::Recipe got = recipe::load(options);
  CHECK(got.tree->find("a")->mark.str() == "command line");
  CHECK(got.tree->find("b")->mark.str() == (dir.path() / "r.yaml").string() + ":2");
}

TEST_CASE("Sweeps are every combination, the last key fastest") {
  const std::vector<std::string> given = {"lr=0.1,0.2", "a=[1,2]", "n=range(1,4)",
                                          "q='x,y'",    "~gone",   "c=choice(s,m)"};
  const auto runs = recipe::sweep(given);
  REQUIRE(runs.size() == 12);
  CHECK(runs[0] == std::vector<std::string>{"lr=0.1", "a=[1,2]", "n=1", "q='x,y'", "~gone", "c=s"});
  CHECK(runs[1] == std::vector<std::string>{"lr=0.1", "a=[1,2]", "n=1", "q='x,y'", "~gone", "c=m"});
  CHECK(runs[11] ==
        std::vector<std::string>{"lr=0.2", "a=[1,2]", "n=3", "q='x,y'", "~gone", "c=m"});
  CHECK(recipe::sweep(std::vector<std::string>{}).size() == 1);
  const std::vector<std::string> huge = {"a=range(0,9000)", "b=range(0,9000)"};
  CHECK_THROWS_AS(recipe::sweep(huge), core::InputError);
  const std::vector<std::string> endless = {"a=range(0,1,0)"};
  CHECK_THROWS_AS(recipe::sweep(endless), core::InputError);
}

TEST_CASE("Recipes that include each other without end are refused quickly") {
  const support::TempDir dir;
  for (int i = 0; i < 20; ++i) {  // 2^20 files when nobody counts
    write(dir.path() / ("r" + std::to_string(i) + ".yaml"),
          i + 1 < 20 ? "defaults:\n  - r" + std::to_string(i + 1) + "\n  - r" +
                           std::to_string(i + 1) + "\n"
                     : "a: 1\n");
  }
  recipe::LoadOptions options;
  options.recipe = (dir.path() / "r0.yaml").string();
  CHECK(has(error_of(options), "the recipe has more than 1000 files"));
}

TEST_CASE("Loading the largest shipped recipe takes less than 50 ms") {
  recipe::LoadOptions options;
  options.recipe = "coco2017_yolo_nas_l";
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    recipe::load(options);
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                  .count());
  }
  CHECK(best < 50.0);
}

}  // namespace
}  // namespace sgtrain
