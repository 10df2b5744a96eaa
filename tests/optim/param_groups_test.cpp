#include "optim/param_groups.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "support/build_model.h"

namespace sgtrain::optim {
namespace {

std::unique_ptr<models::Model> tiny() {
  return support::build_model(
      "custom_resnet_cifar", 10,
      {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", core::Tree::of(0.125)}});
}

TEST_CASE("one rate is one group, in the model's order") {
  const auto model = tiny();
  const auto groups = param_groups(*model, {.initial_lr = {{"default", 0.1}},
                                            .no_decay_on_bias_and_norm = false,
                                            .finetune_prefixes = {}});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].name == "default");
  CHECK(groups[0].params.size() == 38);
  CHECK(groups[0].param_names.front() == "conv1.weight");
  CHECK(groups[0].lr == 0.1);
}

TEST_CASE("biases and norms without decay come first, under the same name") {
  const auto model = tiny();
  const auto groups = param_groups(*model, {.initial_lr = {{"default", 0.1}},
                                            .no_decay_on_bias_and_norm = true,
                                            .finetune_prefixes = {}});
  REQUIRE(groups.size() == 2);  // 25 and 13 parameters, as the reference's summary says
  CHECK(groups[0].params.size() == 25);
  CHECK(groups[0].no_decay);
  CHECK(groups[1].params.size() == 13);
  CHECK_FALSE(groups[1].no_decay);
  CHECK(groups[0].name == groups[1].name);
  for (const std::string& name : groups[1].param_names) CHECK(name.find(".bn") == name.npos);
}

TEST_CASE("rates by prefix: longest wins, zero freezes") {
  const auto model = tiny();
  const auto groups = param_groups(
      *model,
      {.initial_lr = {{"default", 0.1}, {"layer1", 0.0}, {"layer2", 0.2}, {"layer2.0.bn1", 0.3}},
       .no_decay_on_bias_and_norm = false,
       .finetune_prefixes = {}});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "layer2");
  CHECK(groups[1].name == "layer2.0.bn1");
  CHECK(groups[1].params.size() == 2);
  CHECK(groups[2].name == "default");
  for (const auto& parameter : model->named_parameters()) {
    CHECK(parameter.tensor->requires_grad() == !parameter.name.starts_with("layer1"));
  }
}

TEST_CASE("what the model itself does not train is in no group") {
  const auto model = tiny();
  for (const auto& parameter : model->named_parameters()) {
    if (parameter.name.starts_with("linear")) parameter.tensor->set_requires_grad(false);
  }
  const auto groups = param_groups(*model, {.initial_lr = {{"default", 0.1}, {"layer1", 0.2}},
                                            .no_decay_on_bias_and_norm = false,
                                            .finetune_prefixes = {}});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].params.size() + groups[1].params.size() == 36);
}

TEST_CASE("fine-tuning trains the head only") {
  const auto model = tiny();
  const auto groups = param_groups(*model, {.initial_lr = {{"default", 0.1}},
                                            .no_decay_on_bias_and_norm = false,
                                            .finetune_prefixes = {"linear"}});
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].param_names == std::vector<std::string>{"linear.weight", "linear.bias"});
}

TEST_CASE("mistakes in initial_lr are named") {
  const auto model = tiny();
  const auto build = [&](std::map<std::string, double> lr) {
    param_groups(
        *model,
        {.initial_lr = std::move(lr), .no_decay_on_bias_and_norm = false, .finetune_prefixes = {}});
  };
  CHECK_THROWS_WITH(build({{"layer1", 0.1}}), Catch::Contains("no 'default'"));
  CHECK_THROWS_WITH(build({{"default", 0.1}, {"layr1", 0.1}}),
                    Catch::Contains("did you mean 'layer1'"));
  CHECK_THROWS_WITH(build({{"default", 0.0}}), Catch::Contains("frozen"));
}

}  // namespace
}  // namespace sgtrain::optim
