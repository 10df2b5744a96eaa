// Every architecture against the reference implementation: state_dict lists, forwards in evaluation
// and training, running statistics.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/model.h"
#include "support/build_model.h"
#include "support/fill.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

namespace sgtrain {
namespace {

using core::Tree;
using support::Keys;

struct Case {
  const char* key;
  const char* architecture;
  Keys keys;
};

core::TreePtr rows(std::initializer_list<std::initializer_list<std::int64_t>> values) {
  core::TreePtr list = Tree::make_list();
  for (const auto& row : values) list->list.push_back(support::list_of(row));
  return list;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"resnet18", "resnet18", {}},
      {"resnet34", "resnet34", {}},
      {"resnet50", "resnet50", {}},
      {"resnet50_3343", "resnet50_3343", {}},
      {"resnet101", "resnet101", {}},
      {"resnet152", "resnet152", {}},
      {"resnet18_cifar", "resnet18_cifar", {}},
      {"custom_resnet",
       "custom_resnet",
       {{"structure", support::list_of({2, 1, 1, 2})}, {"width_mult", Tree::of(0.5)}}},
      {"custom_resnet50",
       "custom_resnet50",
       {{"structure", support::list_of({1, 2, 1, 1})}, {"width_mult", Tree::of(0.25)}}},
      {"custom_resnet_cifar",
       "custom_resnet_cifar",
       {{"structure", support::list_of({1, 1, 1, 1})}, {"width_mult", Tree::of(0.125)}}},
      {"custom_resnet50_cifar",
       "custom_resnet50_cifar",
       {{"structure", support::list_of({1, 0, 1, 1})}, {"width_mult", Tree::of(0.25)}}},
      {"mobilenet_v2", "mobilenet_v2", {}},
      {"mobile_net_v2_135", "mobile_net_v2_135", {}},
      {"custom_mobilenet_v2",
       "custom_mobilenet_v2",
       {{"structure", rows({{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 2, 2}})},
        {"width_mult", Tree::of(0.5)}}},
      {"yolo_nas_s", "yolo_nas_s", {}},
      {"yolo_nas_m", "yolo_nas_m", {}},
      {"yolo_nas_l", "yolo_nas_l", {}},
      {"yolo_nas_s_nc3", "yolo_nas_s", {}},
  };
  return all;
}

struct Golden {
  explicit Golden(const std::string& key)
      : file(tensor::read_safetensors(support::golden("models/" + key + ".safetensors"))),
        gain(std::stod(file.metadata.at("gain"))),
        num_classes(std::stoi(file.metadata.at("num_classes"))),
        fp32_noise(std::stod(file.metadata.at("eval_fp32_vs_fp64_rel_to_max"))) {
    std::string text = file.metadata.at("input");
    for (const std::string& number : core::split(text.substr(1, text.size() - 2), ','))
      input.push_back(std::stoll(number));
  }
  tensor::SafetensorsFile file;
  double gain;
  int num_classes;
  double fp32_noise;
  std::vector<std::int64_t> input;
};

/// Compares an output with its golden: whole, or as the strided sample of a large one.
void check_output(const Golden& golden, const std::string& key, const at::Tensor& value,
                  double tolerance) {
  INFO(key);
  if (const at::Tensor* whole = golden.file.find(key)) {
    CHECK(support::relative_to_max(value, *whole) <= tolerance);
    return;
  }
  bool found = false;
  for (const auto& [name, sample] : golden.file.tensors) {
    if (name.rfind(key + "@", 0) != 0) continue;
    found = true;
    const auto step = std::stoll(name.substr(key.size() + 1));
    CHECK(support::relative_to_max(value.contiguous().flatten().slice(0, 0, value.numel(), step),
                                   sample) <= tolerance);
  }
  REQUIRE(found);
}

void check_outputs(const Golden& golden, const std::string& mode, const tensor::ModelOutput& out,
                   double tolerance) {
  std::size_t index = 0;
  for (const auto& [name, value] : out.items()) {
    check_output(golden, mode + "." + std::to_string(index++), value, tolerance);
  }
  REQUIRE(golden.file.find(mode + "." + std::to_string(index)) == nullptr);
}

void check_statistics(const Golden& golden, models::Model& model, const std::string& which,
                      double tolerance) {
  std::map<std::string, double> norms;  // the golden sorts by name
  for (const tensor::TensorRef& ref : model.state()) {
    if (ref.name.size() > which.size() &&
        ref.name.compare(ref.name.size() - which.size(), which.size(), which) == 0) {
      norms[ref.name] = ref.tensor->to(at::kDouble).norm().item<double>();
    }
  }
  std::vector<double> values;
  for (const auto& [name, norm] : norms) values.push_back(norm);
  INFO(which);
  CHECK(support::relative_to_max(at::tensor(values, at::kDouble),
                                 golden.file["train." + which + "_l2"]) <= tolerance);
}

}  // namespace

TEST_CASE("state_dicts have the reference's names, order, shapes and types") {
  for (const Case& c : cases()) {
    INFO(c.key);
    const Golden golden(c.key);
    auto model = support::build_model(c.architecture, golden.num_classes, c.keys);
    const auto expected =
        support::read_rows(support::golden("state_dicts/" + std::string(c.key) + ".txt"), '\t');
    const auto state = model->state();
    REQUIRE(state.size() == expected.size());
    std::int64_t parameters = 0;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const std::string type = state[i].tensor->scalar_type() == at::kLong ? "int64" : "float32";
      const std::vector<std::string> found{state[i].name, support::shape_text(*state[i].tensor),
                                           type, state[i].is_parameter ? "param" : "buffer"};
      const std::vector<std::string> wanted(expected[i].begin(), expected[i].begin() + 4);
      REQUIRE(found == wanted);
      if (state[i].is_parameter) parameters += state[i].tensor->numel();
    }
    CHECK(parameters == std::stoll(golden.file.metadata.at("params")));
    CHECK(model->num_classes() == golden.num_classes);
    CHECK(model->input_channels() == 3);
  }
}

TEST_CASE("forwards equal the reference in double precision") {
  for (const Case& c : cases()) {
    INFO(c.key);
    const at::NoGradGuard no_grad;
    const Golden golden(c.key);
    auto model = support::build_model(c.architecture, golden.num_classes, c.keys);
    support::fill_by_rule(*model, golden.gain);
    model->to(at::kDouble);
    const at::Tensor input = support::rule_input(golden.input).to(at::kDouble);
    model->eval();
    check_outputs(golden, "eval", model->run(input), 1e-6);
    model->train();
    check_outputs(golden, "train", model->run(input), 1e-6);
    check_statistics(golden, *model, "running_mean", 1e-6);
    check_statistics(golden, *model, "running_var", 1e-6);
  }
}

TEST_CASE("forwards equal the reference in float, default layout and channels_last") {
  for (const Case& c : cases()) {
    for (const bool channels_last : {false, true}) {
      INFO(c.key << (channels_last ? " channels_last" : ""));
      const at::NoGradGuard no_grad;
      const Golden golden(c.key);
      auto model = support::build_model(c.architecture, golden.num_classes, c.keys);
      support::fill_by_rule(*model, golden.gain);
      at::Tensor input = support::rule_input(golden.input);
      if (channels_last) {
        model->to_channels_last();
        input = input.contiguous(at::MemoryFormat::ChannelsLast);
      }
      model->eval();
      check_outputs(golden, "eval", model->run(input), std::max(2e-5, 10 * golden.fp32_noise));
      model->train();
      // Batch norm sees 8 values per channel in the deepest layers: rounding is amplified.
      const double noise = std::stod(golden.file.metadata.at("train_fp32_vs_fp64_rel_to_max"));
      check_outputs(golden, "train", model->run(input), std::max(5e-3, 10 * noise));
    }
  }
}

TEST_CASE("fused YOLO-NAS has the reference's entries, weights and outputs") {
  const auto golden =
      tensor::read_safetensors(support::golden("yolonas/fusion_yolo_nas_s.safetensors"));
  const Golden unfused("yolo_nas_s");
  const at::NoGradGuard no_grad;
  for (const bool full : {false, true}) {
    const std::string mode = full ? "full" : "partial";
    INFO(mode);
    auto model = support::build_model("yolo_nas_s", 80);
    support::fill_by_rule(*model, unfused.gain);
    model->eval();
    const at::Tensor input = support::rule_input(unfused.input);
    const auto before = model->run(input);
    model->fuse(full);
    const auto expected =
        support::read_rows(support::golden("state_dicts/yolo_nas_s.fused_" + mode + ".txt"), '\t');
    const auto state = model->state();
    REQUIRE(state.size() == expected.size());
    std::map<std::string, double> norms;
    for (std::size_t i = 0; i < state.size(); ++i) {
      REQUIRE(state[i].name == expected[i][0]);
      REQUIRE(support::shape_text(*state[i].tensor) == expected[i][1]);
      if (state[i].tensor->is_floating_point())
        norms[state[i].name] = state[i].tensor->to(at::kDouble).norm().item<double>();
      if (const at::Tensor* weights = golden.find(mode + ":" + state[i].name)) {
        CHECK(support::relative_to_max(*state[i].tensor, *weights) <= 1e-5);
      }
    }
    std::vector<double> values;
    for (const auto& [name, norm] : norms) values.push_back(norm);
    CHECK(support::relative_to_max(at::tensor(values, at::kDouble),
                                   golden["l2_" + mode + "_sorted_float_keys"]) <= 1e-5);
    CHECK(model->unused_parameters().empty());
    const auto after = model->run(input);
    CHECK((after["boxes"] - before["boxes"]).abs().max().item<double>() <= 1e-3);
    CHECK((after["scores"] - before["scores"]).abs().max().item<double>() <= 1e-4);
    if (full) {
      CHECK((after["boxes"] - golden["full_out.0"]).abs().max().item<double>() <= 1e-3);
      CHECK((after["scores"] - golden["full_out.1"]).abs().max().item<double>() <= 1e-4);
      for (const tensor::TensorRef& ref : state) {
        if (ref.name.find("rbr_reparam") != std::string::npos)
          CHECK_FALSE(ref.tensor->requires_grad());
      }
      CHECK_THROWS_AS(model->fuse(false), core::Error);
    }
  }
}

}  // namespace sgtrain
