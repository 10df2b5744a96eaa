// arch_params of architectures: spellings, the reference's trees, mistakes, heads and inputs.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "core/yaml.h"
#include "models/model.h"
#include "support/build_model.h"
#include "support/fill.h"

namespace sgtrain {
namespace {

using core::Tree;
using support::build_model;

std::unique_ptr<models::Model> from_yaml(const std::string& name, const std::string& yaml) {
  auto problems = std::make_shared<core::Problems>();
  core::Node node(core::parse_yaml(yaml, "test.yaml", *problems), problems);
  const auto maker = models::Model::registry().parse({.name = name, .params = node});
  node.report_unread();
  problems->throw_if_any("arch_params");
  return maker();
}

}  // namespace

TEST_CASE("input channels in every spelling, all families") {
  for (const char* key : {"in_channels", "input_channels", "channels_in", "num_input_channels"}) {
    for (const char* name : {"resnet18_cifar", "mobilenet_v2", "yolo_nas_s"}) {
      INFO(name << " " << key);
      auto model = build_model(name, 4, {{key, Tree::of(std::int64_t{5})}});
      CHECK(model->input_channels() == 5);
      model->eval();
      const at::NoGradGuard no_grad;
      CHECK(model->run(at::rand({1, 5, 32, 32})).items().size() >= 1);
    }
  }
}

TEST_CASE("backbone mode gives feature maps and needs no class count") {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::rand({2, 3, 64, 64});
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected{
      {"resnet18", {2, 512, 2, 2}},
      {"resnet50", {2, 2048, 2, 2}},
      {"mobilenet_v2", {2, 1280, 2, 2}}};
  for (const auto& [name, shape] : expected) {
    auto model = build_model(name, {{"features_only", Tree::of(true)}});
    model->eval();
    CHECK(model->run(x)["features"].sizes() == at::IntArrayRef(shape));
    CHECK(model->head_parameters().empty());
  }
  auto model = build_model("yolo_nas_s", {{"backbone_mode", Tree::of(true)}});
  model->eval();
  const auto out = model->run(x);
  CHECK(out["stage1"].sizes() == at::IntArrayRef({2, 96, 16, 16}));
  CHECK(out["context_module"].sizes() == at::IntArrayRef({2, 768, 2, 2}));
  for (const auto& [name, value] : model->state_dict()) CHECK(name.starts_with("backbone."));
}

TEST_CASE("the reference's arch_params tree of YOLO-NAS gives the variant itself") {
  const std::string yaml = R"(
in_channels: 3
num_classes: 7
backbone:
  NStageBackbone:
    stem: {YoloNASStem: {out_channels: 48}}
    stages:
      - YoloNASStage: {out_channels: 96, num_blocks: 2, activation_type: relu, hidden_channels: 64, concat_intermediates: true}
      - YoloNASStage: {out_channels: 192, num_blocks: 3, activation_type: relu, hidden_channels: 128, concat_intermediates: true}
      - YoloNASStage: {out_channels: 384, num_blocks: 5, activation_type: relu, hidden_channels: 256, concat_intermediates: true}
      - YoloNASStage: {out_channels: 768, num_blocks: 2, activation_type: relu, hidden_channels: 384, concat_intermediates: false}
    context_module: {SPP: {output_channels: 768, activation_type: relu, k: [5, 9, 13]}}
    out_layers: [stage1, stage2, stage3, context_module]
neck:
  YoloNASPANNeckWithC2:
    neck1: {YoloNASUpStage: {out_channels: 192, num_blocks: 2, hidden_channels: 192, width_mult: 1, depth_mult: 1, activation_type: relu, reduce_channels: true}}
    neck2: {YoloNASUpStage: {out_channels: 96, num_blocks: 3, hidden_channels: 64, width_mult: 1, depth_mult: 1, activation_type: relu, reduce_channels: true}}
    neck3: {YoloNASDownStage: {out_channels: 192, num_blocks: 2, hidden_channels: 192, activation_type: relu, width_mult: 1, depth_mult: 1}}
    neck4: {YoloNASDownStage: {out_channels: 384, num_blocks: 3, hidden_channels: 256, activation_type: relu, width_mult: 1, depth_mult: 1}}
heads:
  NDFLHeads:
    num_classes: 7
    reg_max: 16
    heads_list:
      - YoloNASDFLHead: {inter_channels: 128, width_mult: 0.75, first_conv_group_size: 0, stride: 8}
      - YoloNASDFLHead: {inter_channels: 256, width_mult: 0.75, first_conv_group_size: 0, stride: 16}
      - YoloNASDFLHead: {inter_channels: 512, width_mult: 0.75, first_conv_group_size: 0, stride: 32}
bn_eps: 0.001
bn_momentum: 0.03
inplace_act: true
_convert_: all
)";
  auto whole =
      from_yaml("yolo_nas_s", yaml);  // every number is given: the name's own do not matter
  auto plain = build_model("yolo_nas_m", 7);
  const auto a = whole->state(), b = plain->state();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].name == b[i].name);
    REQUIRE(a[i].tensor->sizes() == b[i].tensor->sizes());
  }
}

TEST_CASE("mistakes in arch_params are named with their key") {
  CHECK_THROWS_WITH(build_model("yolo_nas_s", {}), Catch::Contains("num_classes"));
  CHECK_THROWS_WITH(build_model("resnet18", 0),
                    Catch::Contains("num_classes") && Catch::Contains("found 0"));
  CHECK_THROWS_WITH(build_model("resnet18", 4, {{"droppath_prb", Tree::of(0.1)}}),
                    Catch::Contains("droppath_prob"));
  CHECK_THROWS_WITH(build_model("resnet18", 4, {{"droppath_prob", Tree::of(1.5)}}),
                    Catch::Contains("droppath_prob"));
  CHECK_THROWS_WITH(build_model("custom_resnet", 4, {{"structure", support::list_of({1, 2})}}),
                    Catch::Contains("four stages"));
  CHECK_THROWS_WITH(from_yaml("yolo_nas_s", "{num_classes: 3, backbone: {ResNet: {}}}"),
                    Catch::Contains("NStageBackbone"));
  CHECK_THROWS_WITH(from_yaml("yolo_nas_s",
                              "{num_classes: 3, backbone: {NStageBackbone: {out_layers: [stage3, "
                              "stage1, stage2, stage4]}}}"),
                    Catch::Contains("out of order"));
  CHECK_THROWS_WITH(
      from_yaml("custom_mobilenet_v2", "{num_classes: 3, structure: [[6, 24, 2, 3]]}"),
      Catch::Contains("stride 1 or 2"));
}

TEST_CASE("images of other sizes are refused before the first layer") {
  auto model = build_model("yolo_nas_s", 3);
  CHECK(model->size_divisor() == 32);
  CHECK_THROWS_WITH(model->run(at::rand({1, 3, 100, 64})),
                    Catch::Contains("multiples of 32") && Catch::Contains("100x64"));
}

TEST_CASE("a new head and new input channels keep everything else") {
  for (const char* name : {"resnet18", "custom_resnet50_cifar", "mobilenet_v2", "yolo_nas_s"}) {
    INFO(name);
    support::Keys keys;
    if (std::string(name) == "custom_resnet50_cifar") {
      keys = {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", Tree::of(0.25)}};
    }
    auto model = build_model(name, 80, keys);
    const auto before = model->state_dict();
    std::vector<at::Tensor> copies;
    for (const auto& [key, value] : before) copies.push_back(value.clone());
    model->replace_head(2);
    CHECK(model->num_classes() == 2);
    const auto after = model->state_dict();
    REQUIRE(after.size() == before.size());
    const auto head = model->head_parameters();
    CHECK_FALSE(head.empty());
    std::size_t changed = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      if (std::find(head.begin(), head.end(), after[i].first) != head.end()) {
        CHECK(after[i].second.size(0) == 2);
        ++changed;
      } else {
        CHECK(at::equal(after[i].second, copies[i]));
      }
    }
    CHECK(changed == head.size());
    bool finetuned = false;
    for (const std::string& prefix : model->finetune_prefixes())
      finetuned |= head.front().starts_with(prefix);
    CHECK(finetuned);

    model->replace_input_channels(4);
    CHECK(model->input_channels() == 4);
    std::size_t grown = 0;
    const auto wide = model->state_dict();
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (wide[i].second.sizes() == after[i].second.sizes()) continue;
      ++grown;
      CHECK(at::equal(wide[i].second.narrow(1, 0, 3), copies[i]));
    }
    CHECK(grown == (std::string(name) == "yolo_nas_s" ? 3U : 1U));
    model->train();
    const auto out = model->run(at::rand({2, 4, 64, 64}));
    CHECK(out.has("logits") == (model->task() == models::Task::kClassification));
    for (const tensor::TensorRef& ref : model->named_parameters())
      CHECK(ref.tensor->requires_grad());
  }
}

TEST_CASE("batch norm settings of arch_params reach every layer") {
  auto slow = build_model("resnet18_cifar", 4,
                          {{"bn_momentum", Tree::of(0.5)}, {"bn_eps", Tree::of(0.01)}});
  auto standard = build_model("resnet18_cifar", 4);
  const at::NoGradGuard no_grad;
  for (auto* model : {slow.get(), standard.get()}) {
    support::fill_by_rule(*model, 1.2);
    model->train();
    model->run(support::rule_input({2, 3, 32, 32}));
  }
  const auto fast_mean = slow->state_dict(), mean = standard->state_dict();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (mean[i].first != "bn1.running_mean") continue;
    const at::Tensor start = support::rule_value("bn1.running_mean", mean[i].second, 1.0);
    CHECK(at::allclose((fast_mean[i].second - start) / 0.5, (mean[i].second - start) / 0.1, 1e-4,
                       1e-6));
  }
}

}  // namespace sgtrain
