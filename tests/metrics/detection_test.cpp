#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "metrics/metric.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

using namespace sgtrain;
using support::ComponentKeys;

namespace {

constexpr std::int64_t kHeight = 200, kWidth = 240;

const tensor::SafetensorsFile& golden() {
  static const auto file =
      tensor::read_safetensors(support::golden("metrics/detection.safetensors"));
  return file;
}

nlohmann::json expected() {
  std::ifstream file(support::golden("metrics/values.json"));
  return nlohmann::json::parse(file)["detection"];
}

std::unique_ptr<metrics::Metric> make_metric(const std::string& name, ComponentKeys keys = {}) {
  keys.emplace_back("num_cls", core::Tree::of(std::int64_t{4}));
  keys.emplace_back("post_prediction_callback", core::Tree::of("PassThrough"));
  if (!support::map_of(keys)->find("normalize_targets"))
    keys.emplace_back("normalize_targets", core::Tree::of(true));
  return support::make_component<metrics::Metric>(name, keys);
}

/// Images [first, last) of batch `b` of the goldens.
struct Options {
  bool crowd = false, fractions = false, no_detections = false;
};
void update(metrics::Metric& metric, int b, Options options = {}, std::int64_t first = 0,
            std::int64_t last = 3) {
  const std::string name = "b" + std::to_string(b) + ".";
  const auto part = [&](const at::Tensor& rows) {
    const at::Tensor image = rows.select(1, 0);
    at::Tensor out = rows.index({at::logical_and(image >= first, image < last)}).clone();
    out.select(1, 0) -= first;
    if (options.fractions) out.narrow(1, 2, 4) /= at::tensor({kWidth, kHeight, kWidth, kHeight});
    return out;
  };
  tensor::ModelOutput output;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = first; i < last; ++i) {
    const at::Tensor& detections = golden()[name + "pred" + std::to_string(i)];
    output.set("image", options.no_detections ? at::zeros({0, 6}) : detections);
    indices.push_back(b * 3 + i);
  }
  tensor::Targets targets;
  targets.boxes = part(golden()[name + "targets_px"]);
  if (options.crowd) targets.crowd_boxes = part(golden()[name + "crowd_px"]);
  metric.update({output, targets, kHeight, kWidth, indices});
}

void check(metrics::Metric& metric, const nlohmann::json& values) {
  const auto computed = metric.compute(), described = metric.describe();
  REQUIRE(computed.size() == values.size());
  for (std::size_t i = 0; i < computed.size(); ++i) {
    INFO(computed[i].name);
    CHECK(computed[i].name == described[i].name);
    REQUIRE(values.contains(computed[i].name));
    CHECK(computed[i].value == Approx(values[computed[i].name].get<double>()).margin(1e-6));
  }
}

core::TreePtr real(double v) {
  return core::Tree::of(v);
}

}  // namespace

TEST_CASE("DetectionMetrics equal the goldens", "[metrics]") {
  struct Case {
    const char *values, *metric;
    ComponentKeys keys;
    Options options;
    int batches;
  };
  const core::TreePtr yes = core::Tree::of(true);
  const std::vector<Case> cases = {
      {"map_050_095", "DetectionMetrics", {{"include_classwise_ap", yes}}, {}, 3},
      {"map_050_095_crowd",
       "DetectionMetrics",
       {{"include_classwise_ap", yes}},
       {.crowd = true},
       3},
      {"map_050_095_first_batch", "DetectionMetrics_050_095", {}, {}, 1},
      {"map_050", "DetectionMetrics_050", {}, {}, 3},
      {"map_075", "DetectionMetrics_075", {}, {}, 3},
      {"map_050_score05", "DetectionMetrics_050", {{"score_thres", real(0.5)}}, {}, 3},
      {"map_050_top2",
       "DetectionMetrics_050",
       {{"top_k_predictions", core::Tree::of(std::int64_t{2})}},
       {},
       3},
      {"map_range_0.6_0.8",
       "DetectionMetrics",
       {{"iou_thres", support::numbers({0.6, 0.8})}},
       {},
       3},
      {"map_050_095_normalized_targets(normalize_targets=False)",
       "DetectionMetrics_050_095",
       {{"normalize_targets", core::Tree::of(false)}},
       {.fractions = true},
       3},
      {"map_050_empty", "DetectionMetrics_050", {}, {}, 0},
      {"map_no_preds", "DetectionMetrics_050_095", {}, {.no_detections = true}, 3},
  };
  for (const Case& c : cases) {
    INFO(c.values);
    const auto metric = make_metric(c.metric, c.keys);
    for (int b = 0; b < c.batches; ++b) update(*metric, b, c.options);
    check(*metric, expected()[c.values]);
  }
}

TEST_CASE("pixels are recognised when normalize_targets is off", "[metrics]") {
  const auto metric =
      make_metric("DetectionMetrics_050", {{"normalize_targets", core::Tree::of(false)}});
  for (int b = 0; b < 3; ++b) update(*metric, b);
  check(*metric, expected()["map_050"]);
}

TEST_CASE("detection metrics merge to the value of one process, in any order", "[metrics]") {
  for (const std::string name : {"DetectionMetrics_050_095", "CocoBox"}) {
    INFO(name);
    const auto whole = make_metric(name);
    for (int b = 0; b < 3; ++b) update(*whole, b, {.crowd = true});
    const auto values = whole->compute();
    std::vector<std::pair<int, int>> images;  // batch, image
    for (int i = 0; i < 9; ++i) images.emplace_back(i / 3, i % 3);
    for (int order = 0; order < 3; ++order) {
      std::vector<std::unique_ptr<metrics::Metric>> ranks;
      for (int r = 0; r < 3; ++r) ranks.push_back(make_metric(name));
      for (std::size_t i = 0; i < images.size(); ++i) {
        const auto [b, image] = images[i];
        update(*ranks[(i + static_cast<std::size_t>(order)) % 3], b, {.crowd = true}, image,
               image + 1);
      }
      const auto idle = make_metric(name);  // a rank without data
      for (const int r : {2, 0, 1})
        idle->merge(ranks[static_cast<std::size_t>((r + order) % 3)]->state());
      const auto merged = idle->compute();
      for (std::size_t i = 0; i < values.size(); ++i) CHECK(merged[i].value == values[i].value);
      std::reverse(images.begin(), images.end());
    }
    whole->reset();
    CHECK(whole->compute().at(0).value == -1.0);
  }
}

TEST_CASE("CocoBox gives pycocotools' numbers of the golden batches", "[metrics]") {
  const auto stats = expected()["pycocotools_bbox_stats"];
  const auto metric = make_metric("CocoBox", {{"include_classwise_ap", core::Tree::of(true)}});
  for (int b = 0; b < 3; ++b) update(*metric, b);
  const auto values = metric->compute();
  REQUIRE(values.size() == 12 + 4);
  for (std::size_t i = 0; i < 12; ++i) {
    INFO(values[i].name);
    CHECK(values[i].value == Approx(stats[i].get<double>()).margin(1e-6));
  }
  CHECK(values[0].name == "COCO_AP@0.50:0.95");
  CHECK(values[12].name == "COCO_AP_class_0");
  double mean = 0;
  for (std::size_t i = 12; i < 16; ++i) mean += values[i].value / 4;
  CHECK(mean == Approx(values[0].value));
}

TEST_CASE("a perfect predictor scores 1, images without any object score -1", "[metrics]") {
  for (const std::string name : {"DetectionMetrics_050_095", "CocoBox"}) {
    const auto metric = make_metric(name);
    tensor::Targets targets;
    targets.boxes =
        at::tensor({0.F, 1.F, 50.F, 50.F, 40.F, 40.F, 1.F, 3.F, 100.F, 90.F, 60.F, 30.F})
            .view({2, 6});
    const std::vector<std::int64_t> indices = {0, 1, 2};
    const tensor::ModelOutput output = {
        {"a", at::tensor({30.F, 30.F, 70.F, 70.F, 0.9F, 1.F}).view({1, 6})},
        {"b", at::tensor({70.F, 75.F, 130.F, 105.F, 0.8F, 3.F}).view({1, 6})},
        {"c", at::zeros({0, 6})}};
    metric->update({output, targets, kHeight, kWidth, indices});
    for (const auto& value : metric->compute()) {
      const bool map = value.name == "mAP@0.50:0.95" || value.name == "COCO_AP@0.50:0.95";
      if (map) CHECK(value.value == Approx(1.0));
    }
    metric->reset();
    metric->update({output, tensor::Targets{}, kHeight, kWidth, indices});
    for (const auto& value : metric->compute()) CHECK(value.value == -1.0);
  }
}

TEST_CASE("detection metrics say what does not fit", "[metrics]") {
  CHECK_THROWS_WITH(support::make_component<metrics::Metric>("DetectionMetrics_050"),
                    Catch::Contains("num_cls") && Catch::Contains("post_prediction_callback"));
  CHECK_THROWS_WITH(make_metric("DetectionMetrics", {{"iou_thres", support::numbers({0.9, 0.5})}}),
                    Catch::Contains("iou_thres"));
  core::TreePtr names = core::Tree::make_list();
  names->list.push_back(core::Tree::of("only"));
  CHECK_THROWS_WITH(make_metric("DetectionMetrics_050", {{"class_names", names}}),
                    Catch::Contains("1 names"));
  const auto metric = make_metric("DetectionMetrics_050");
  tensor::Targets targets;
  targets.boxes = at::tensor({0.F, 4.F, 50.F, 50.F, 40.F, 40.F}).view({1, 6});
  const std::vector<std::int64_t> indices = {0};
  const tensor::ModelOutput output = {{"a", at::zeros({0, 6})}};
  CHECK_THROWS_WITH(metric->update({output, targets, kHeight, kWidth, indices}),
                    Catch::Contains("class 4"));
}

TEST_CASE("CocoBox scores in pixels of the pictures, with the file's areas", "[metrics]") {
  // The picture is 480 x 400, the network saw half of it moved by (0, 10); one box of 100 x 100
  // pixels (large in the picture, medium in the network's input), found exactly.
  const auto metric = make_metric("CocoBox");
  tensor::ModelOutput output;
  output.set("image", at::tensor({10.F, 30.F, 60.F, 80.F, 0.9F, 1.F}).view({1, 6}));
  tensor::Targets targets;
  targets.boxes = at::tensor({0.F, 1.F, 35.F, 55.F, 50.F, 50.F}).view({1, 6});
  std::vector<metrics::OriginalImage> originals(1);
  originals[0].id = 77;
  originals[0].geometry = {.width = 480, .height = 400, .steps = {{0.5, 0.5, 0, 10}}};
  originals[0].objects = {{20, 40, 100, 100, 9999.5, 1, false}};
  const std::vector<std::int64_t> indices{0};
  const auto value = [&](const std::string& name) {
    for (const auto& v : metric->compute())
      if (v.name == name) return v.value;
    return -2.0;
  };
  metrics::SharedDetections shared;
  metrics::MetricInput input{.output = output,
                             .targets = targets,
                             .height = kHeight,
                             .width = kWidth,
                             .indices = indices,
                             .originals = originals,
                             .shared = &shared};
  metric->reset();
  metric->update(input);
  CHECK(shared.size() == 1);
  CHECK(value("COCO_AP@0.50:0.95") == Approx(1.0));
  CHECK(value("COCO_AP_large") == Approx(1.0));
  CHECK(value("COCO_AP_medium") == -1.0);
  // A second metric with the same callback takes the detections that are there.
  shared.begin()->second = {at::zeros({0, 6})};
  const auto other = make_metric("CocoBox");
  other->reset();
  other->update(input);
  CHECK(other->compute().front().value == 0.0);
  // The area is the file's, and travels when states are merged.
  const auto merged = make_metric("CocoBox");
  merged->reset();
  originals[0].objects[0].area = 900;
  metric->reset();
  input.shared = nullptr;
  metric->update(input);
  merged->merge(metric->state());
  const auto values = merged->compute();
  CHECK(values[3].name == "COCO_AP_small");
  CHECK(values[3].value == Approx(1.0));
  // Without the way back: pixels of the network input.
  metric->reset();
  input.originals = {};
  metric->update(input);
  CHECK(value("COCO_AP_medium") == Approx(1.0));
}
