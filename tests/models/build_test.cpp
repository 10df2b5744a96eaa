// Loading weights: the four kinds of strictness, wrapper prefixes, other class counts.
#include "models/build.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "core/error.h"
#include "support/build_model.h"
#include "support/fill.h"
#include "support/temp_dir.h"
#include "tensor/safetensors.h"

namespace sgtrain {
namespace {

using core::Tree;
using models::StrictLoad;
using tensor::StateDict;

std::unique_ptr<models::Model> tiny(int classes) {
  return support::build_model(
      "custom_resnet_cifar", classes,
      {{"structure", support::list_of({1, 1, 0, 1})}, {"width_mult", Tree::of(0.125)}});
}

/// Copies, so that loading into a model does not change the file's entries.
StateDict rule_state(int classes, const std::string& prefix = "") {
  auto model = tiny(classes);
  support::fill_by_rule(*model, 1.2);
  StateDict out;
  for (const auto& [name, value] : model->state_dict())
    out.emplace_back(prefix + name, value.clone());
  return out;
}

bool equal_states(models::Model& model, const StateDict& wanted) {
  const StateDict own = model.state_dict();
  return own.size() == wanted.size() &&
         std::equal(own.begin(), own.end(), wanted.begin(),
                    [](const auto& a, const auto& b) { return at::equal(a.second, b.second); });
}

}  // namespace

TEST_CASE("a state with any wrapper prefix loads as the bare one") {
  const StateDict wanted = rule_state(10);
  for (const std::string prefix :
       {"", "module.", "_orig_mod.", "net.", "model.", "module._orig_mod.", "model.net."}) {
    for (const StrictLoad strict : {StrictLoad::kOn, StrictLoad::kOff, StrictLoad::kNoKeyMatching,
                                    StrictLoad::kKeyMatching}) {
      INFO("prefix '" << prefix << "'");
      auto model = tiny(10);
      const auto report = models::load_state(*model, rule_state(10, prefix), strict, "file");
      CHECK(equal_states(*model, wanted));
      CHECK(report.matched == wanted.size());
      CHECK(report.missing.empty());
      CHECK(report.ignored.empty());
      CHECK_FALSE(report.by_order);
      CHECK(report.stripped_prefix == prefix);
    }
  }
}

TEST_CASE("strictness decides what a file with other entries does") {
  StateDict state = rule_state(10);
  state.erase(state.begin());                           // conv1.weight is missing
  state.emplace_back("teacher.weight", at::ones({2}));  // and a foreign entry
  {
    auto model = tiny(10);
    CHECK_THROWS_WITH(models::load_state(*model, state, StrictLoad::kOn, "a.pth"),
                      Catch::Contains("conv1.weight") && Catch::Contains("teacher.weight") &&
                          Catch::Contains("a.pth"));
    CHECK_THROWS_AS(models::load_state(*model, state, StrictLoad::kNoKeyMatching, "a.pth"),
                    core::InputError);
  }
  for (const StrictLoad strict : {StrictLoad::kOff, StrictLoad::kKeyMatching}) {
    auto model = tiny(10);
    const at::Tensor before = model->state_dict().front().second.clone();
    const auto report = models::load_state(*model, state, strict, "a.pth");
    CHECK(report.matched == state.size() - 1);
    CHECK(report.missing == std::vector<std::string>{"conv1.weight"});
    CHECK(report.ignored == std::vector<std::string>{"teacher.weight"});
    CHECK(at::equal(model->state_dict().front().second, before));
    CHECK_THAT(report.summary(),
               Catch::Contains("1 of the model") && Catch::Contains("teacher.weight"));
  }
}

TEST_CASE("other shapes: an error unless matching by key") {
  const StateDict state = rule_state(7);
  for (const StrictLoad strict : {StrictLoad::kOn, StrictLoad::kOff, StrictLoad::kNoKeyMatching}) {
    auto model = tiny(10);
    CHECK_THROWS_WITH(
        models::load_state(*model, state, strict, "a.pth"),
        Catch::Contains("linear.weight ([7, 64] in the file, [10, 64] in the model)"));
  }
  auto model = tiny(10);
  const auto report = models::load_state(*model, state, StrictLoad::kKeyMatching, "a.pth");
  CHECK(report.missing == std::vector<std::string>{"linear.weight", "linear.bias"});
  CHECK(report.matched == state.size() - 2);
}

TEST_CASE("foreign names load by order when every shape agrees") {
  StateDict state = rule_state(10);
  for (std::size_t i = 0; i < state.size(); ++i) state[i].first = "layer_" + std::to_string(i);
  auto model = tiny(10);
  const auto report = models::load_state(*model, state, StrictLoad::kNoKeyMatching, "a.pth");
  CHECK(report.by_order);
  CHECK(equal_states(*model, rule_state(10)));
  CHECK_THROWS_AS(models::load_state(*model, state, StrictLoad::kOff, "a.pth"),
                  core::InputError);  // nothing fits
  std::swap(state[0].second, state[1].second);
  CHECK_THROWS_AS(models::load_state(*model, state, StrictLoad::kNoKeyMatching, "a.pth"),
                  core::InputError);
}

TEST_CASE("half precision files fill float models") {
  StateDict state = rule_state(10);
  for (auto& [name, value] : state) {
    if (value.is_floating_point()) value = value.to(at::kHalf);
  }
  auto model = tiny(10);
  models::load_state(*model, state, StrictLoad::kOn, "a.pth");
  CHECK(model->state_dict().front().second.scalar_type() == at::kFloat);
  CHECK(at::equal(model->state_dict().front().second, state.front().second.to(at::kFloat)));
}

TEST_CASE("another class count: a new head for fine-tuning, an error otherwise") {
  const StateDict state = rule_state(80, "module.");
  auto model = tiny(2);
  CHECK(models::classes_of(*model, state) == 80);
  CHECK_THROWS_WITH(models::load_model_state(*model, state, StrictLoad::kOn, "a.pth", false),
                    Catch::Contains("80 classes") && Catch::Contains("model 2") &&
                        Catch::Contains("class_names"));
  models::load_model_state(*model, state, StrictLoad::kOn, "a.pth", true);
  CHECK(model->num_classes() == 2);
  const StateDict own = model->state_dict();
  for (std::size_t i = 0; i + 2 < own.size(); ++i) CHECK(at::equal(own[i].second, state[i].second));
  CHECK(own.back().second.numel() == 2);
}

TEST_CASE("weights of a recipe: file, run folder, pretrained name, backbone alone") {
  const support::TempDir folder;
  tensor::write_safetensors(folder.path() / "a.safetensors", rule_state(10));
  {
    auto model = tiny(3);
    const std::string text =
        models::load_weights(*model, "custom_resnet_cifar",
                             {.checkpoint_path = "a.safetensors", .base_dir = folder.path()});
    CHECK_THAT(text, Catch::Contains("10 classes, this run 3"));
    CHECK(at::equal(model->state_dict().front().second, rule_state(10).front().second));
  }
  auto model = tiny(10);
  CHECK_THROWS_WITH(
      models::load_weights(*model, "r", {.checkpoint_path = "no.pth", .base_dir = folder.path()}),
      Catch::Contains((folder.path() / "no.pth").string()));
  CHECK_THROWS_WITH(models::load_weights(*model, "r", {.pretrained_weights = "nowhere"}),
                    Catch::Contains("r_nowhere.pth"));
  CHECK_THROWS_AS(
      models::load_weights(*model, "r", {.checkpoint_path = "a", .pretrained_weights = "b"}),
      core::InputError);
  CHECK_THROWS_WITH(
      models::load_weights(
          *model, "r",
          {.checkpoint_path = "a.safetensors", .backbone_only = true, .base_dir = folder.path()}),
      Catch::Contains("backbone"));

  auto source = support::build_model("yolo_nas_s", 80);
  support::fill_by_rule(*source, 0.8);
  tensor::write_safetensors(folder.path() / "y.safetensors", source->state_dict());
  auto target = support::build_model("yolo_nas_s", 4);
  const std::string text = models::load_weights(
      *target, "yolo_nas_s",
      {.checkpoint_path = "y.safetensors", .backbone_only = true, .base_dir = folder.path()});
  CHECK_THAT(text, Catch::Contains("backbone only"));
  const StateDict from = source->state_dict(), to = target->state_dict();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i].first.starts_with("backbone.")) CHECK(at::equal(to[i].second, from[i].second));
  }
}

TEST_CASE("names of strictness") {
  CHECK(models::strict_load_from("On") == StrictLoad::kOn);
  CHECK(models::strict_load_from("False") == StrictLoad::kOff);
  CHECK(models::strict_load_from("NO_KEY_MATCHING") == StrictLoad::kNoKeyMatching);
  CHECK_THROWS_WITH(models::strict_load_from("key_match"), Catch::Contains("key_matching"));
}

}  // namespace sgtrain
