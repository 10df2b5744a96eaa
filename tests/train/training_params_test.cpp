// Every training parameter of the reference is known, explained and has the default of the file
// that recipes start from.
#include "train/training_params.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "recipe/recipe.h"
#include "support/golden.h"
#include "train/tiny_run.h"

using namespace sgtrain;
using train::testing::TinyRun;

namespace {

using Json = nlohmann::ordered_json;

/// A default as the list prints it; maps and lists of components have their own descriptions.
std::string text_of(const Json& value) {
  if (value.is_string()) return "'" + value.get<std::string>() + "'";
  return value.dump();
}

const core::KeyDoc* find(const std::vector<core::KeyDoc>& docs, const std::string& key) {
  const auto found =
      std::find_if(docs.begin(), docs.end(), [&](const auto& doc) { return doc.key == key; });
  return found == docs.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("every training parameter of the reference is listed with its default", "[train]") {
  const Json golden = Json::parse(std::ifstream(support::golden("train/training_params.json")));
  const auto docs = train::describe_training_params();
  CHECK(golden["defaults"].size() == 57);
  Json all = golden["defaults"];
  all.update(golden["others"]);
  for (const auto& [key, value] : all.items()) {
    INFO(key);
    const core::KeyDoc* doc = find(docs, key);
    REQUIRE(doc != nullptr);
    CHECK_FALSE(doc->required);
    if (value.is_object()) {
      CHECK(doc->type == "map");
    } else if (key == "phase_callbacks") {  // null there: none
      CHECK(doc->default_value == "[]");
    } else {
      CHECK(doc->default_value == text_of(value));
    }
  }
  for (const auto& key : golden["required"]) {
    INFO(key);
    const core::KeyDoc* doc = find(docs, key);
    REQUIRE(doc != nullptr);
    CHECK(doc->required);
  }
}

TEST_CASE("every listed training parameter has a type, a default and a meaning, once", "[train]") {
  std::set<std::string> keys;
  for (const core::KeyDoc& doc : train::describe_training_params()) {
    INFO(doc.key);
    CHECK(keys.insert(doc.key).second);
    CHECK_FALSE(doc.help.empty());
    CHECK_FALSE(doc.type.empty());
    CHECK((doc.required || !doc.default_value.empty()));
  }
}

TEST_CASE("keys without effect: defaults are silent, other values one note, services an error",
          "[train]") {
  const TinyRun tiny("  max_epochs: 1\n  initial_lr: 0.1\n");
  const auto notes_with = [&](const std::string& key, const std::string& value) {
    int count = 0;
    for (const std::string& note : tiny.plan({"+training_hyperparams." + key + "=" + value}).notes)
      count += note.find(key + " has no effect") != std::string::npos ? 1 : 0;
    return count;
  };
  int seen = 0;
  for (const core::KeyDoc& doc : train::inert_training_params()) {
    INFO(doc.key);
    CHECK(notes_with(doc.key, doc.default_value) == 0);
    if (doc.type != "boolean") continue;
    ++seen;
    const std::string other = doc.default_value == "true" ? "false" : "true";
    const bool asks = doc.key == "save_tensorboard_to_s3" || doc.key == "enable_qat" ||
                      doc.key == "resume_from_remote_sg_logger";
    if (asks) {
      CHECK_THROWS_WITH(notes_with(doc.key, other), Catch::Contains("is not available"));
    } else {
      CHECK(notes_with(doc.key, other) == 1);
    }
  }
  CHECK(seen == 10);
  CHECK(notes_with("torch_compile_options", "{mode: reduce-overhead, backend: inductor}") == 0);
}

TEST_CASE("what a recipe may ask for in vain is an error that says why", "[train]") {
  const TinyRun tiny("  max_epochs: 1\n  initial_lr: 0.1\n");
  const auto plan = [&](const std::string& key, const std::string& value) {
    tiny.plan({"+training_hyperparams." + key + "=" + value});
  };
  CHECK_THROWS_WITH(plan("lr_mode", "FunctionLRScheduler"), Catch::Contains("plug-in"));
  CHECK_THROWS_WITH(plan("lr_schedule_function", "f"), Catch::Contains("Python functions"));
  for (const char* name :
       {"YoloXTrainingStageSwitchCallback", "DEKRVisualizationCallback",
        "ExtremeBatchPoseEstimationVisualizationCallback", "ExtremeBatchSegVisualizationCallback",
        "SlidingWindowValidationCallback", "RoboflowResultCallback", "ModelConversionCheckCallback",
        "DeciLabUploadCallback"}) {
    INFO(name);
    CHECK_THROWS_WITH(plan("phase_callbacks", std::string("[{") + name + ": {freq: 1}}]"),
                      Catch::Contains(std::string(name) + " is not available") &&
                          !Catch::Contains("did you mean"));
  }
}

TEST_CASE("the file of defaults says what the program does without it", "[train]") {
  const auto recipe = recipe::load(
      {.recipe = SGTRAIN_SOURCE_DIR "/recipes/training_hyperparams/default_train_params.yaml",
       .config_dirs = {},
       .overrides = {}});
  int compared = 0;
  for (const core::KeyDoc& doc : train::describe_training_params()) {
    const auto value = recipe.tree->find(doc.key);
    if (!value || doc.required) continue;
    INFO(doc.key);
    using Kind = core::Tree::Kind;
    if (value->kind == Kind::kBool) CHECK(doc.default_value == (value->boolean ? "true" : "false"));
    if (value->kind == Kind::kInt) CHECK(doc.default_value == std::to_string(value->integer));
    if (value->kind == Kind::kString) CHECK(doc.default_value == "'" + value->text + "'");
    if (value->kind == Kind::kBool || value->kind == Kind::kInt || value->kind == Kind::kString)
      ++compared;
  }
  CHECK(compared > 20);
}
