#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>

#include "postprocess/nms.h"
#include "postprocess/postprocess.h"
#include "support/component.h"
#include "support/golden.h"
#include "tensor/safetensors.h"

using namespace sgtrain;
using postprocess::Candidate;

namespace {

std::unique_ptr<postprocess::DetectionPostprocess> make_callback(double score, double iou,
                                                                 std::int64_t top_k,
                                                                 std::int64_t most,
                                                                 bool multi_label = true,
                                                                 bool agnostic = false) {
  return support::make_component<postprocess::DetectionPostprocess>(
      "PPYoloEPostPredictionCallback", {{"score_threshold", core::Tree::of(score)},
                                        {"nms_threshold", core::Tree::of(iou)},
                                        {"nms_top_k", core::Tree::of(top_k)},
                                        {"max_predictions", core::Tree::of(most)},
                                        {"multi_label_per_box", core::Tree::of(multi_label)},
                                        {"class_agnostic_nms", core::Tree::of(agnostic)}});
}

/// NMS as its definition says it, quadratic.
std::vector<std::size_t> plain_nms(const std::vector<Candidate>& c, double threshold,
                                   bool agnostic) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const bool gone = std::any_of(kept.begin(), kept.end(), [&](std::size_t j) {
      return (agnostic || c[j].label == c[i].label) && tensor::iou(c[i].box, c[j].box) > threshold;
    });
    if (!gone) kept.push_back(i);
  }
  return kept;
}

std::vector<Candidate> random_candidates(std::int64_t n, int labels) {
  const at::Tensor r = at::rand({n, 6});
  const auto a = r.accessor<float, 2>();
  std::vector<Candidate> out;
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = a[i][0] * 200 - 20, y = a[i][1] * 200 - 20;
    out.push_back({{x, y, x + a[i][2] * 60, y + a[i][3] * 60},
                   std::round(a[i][4] * 50) / 50,
                   static_cast<int>(a[i][5] * static_cast<float>(labels))});
  }
  postprocess::keep_most_confident(out, out.size());
  return out;
}

}  // namespace

TEST_CASE("PPYoloEPostPredictionCallback equals the goldens in value and order", "[postprocess]") {
  const auto golden = tensor::read_safetensors(support::golden("yolonas/nms.safetensors"));
  struct Config {
    const char* name;
    double score, iou;
    int top_k, most;
    bool multi_label, agnostic;
  };
  const std::vector<Config> configs = {{"default", 0.25, 0.7, 1000, 300, true, false},
                                       {"low", 0.01, 0.7, 1000, 300, true, false},
                                       {"topk", 0.01, 0.5, 40, 10, true, false},
                                       {"single", 0.25, 0.5, 1000, 300, false, false},
                                       {"agnostic", 0.25, 0.5, 1000, 300, true, true},
                                       {"single_agnostic", 0.25, 0.4, 1000, 300, false, true},
                                       {"none", 1.5, 0.5, 1000, 300, true, false}};
  CHECK(golden.metadata.size() == configs.size());
  for (const Config& c : configs) {
    const auto callback = make_callback(c.score, c.iou, c.top_k, c.most, c.multi_label, c.agnostic);
    const auto out = (*callback)({{"boxes", golden["boxes"]}, {"scores", golden["scores"]}});
    REQUIRE(out.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      INFO(c.name << "." << i);
      const at::Tensor& expected = golden[std::string(c.name) + "." + std::to_string(i)];
      REQUIRE(out[i].sizes() == expected.sizes());
      CHECK(at::equal(out[i], expected));
    }
  }
}

TEST_CASE("thresholds can be overridden", "[postprocess]") {
  const auto golden = tensor::read_safetensors(support::golden("yolonas/nms.safetensors"));
  const auto callback = make_callback(0.9, 0.9, 5, 5);
  callback->set({.confidence = 0.25,
                 .iou = 0.4,
                 .pre_nms_top_k = 1000,
                 .max_predictions = 300,
                 .class_agnostic = true,
                 .multi_label = false});
  const auto out = (*callback)({{"boxes", golden["boxes"]}, {"scores", golden["scores"]}});
  CHECK(at::equal(out[0], golden["single_agnostic.0"]));
  callback->set({});
  CHECK(at::equal((*callback)({{"boxes", golden["boxes"]}, {"scores", golden["scores"]}})[1],
                  golden["single_agnostic.1"]));
}

TEST_CASE("NMS is what its definition says", "[postprocess]") {
  for (int seed = 0; seed < 5; ++seed) {
    at::manual_seed(seed);
    for (const bool agnostic : {false, true}) {
      const auto candidates = random_candidates(400, 3);
      const auto expected = plain_nms(candidates, 0.5, agnostic);
      CHECK(postprocess::nms(candidates, 0.5, agnostic) == expected);
      CHECK(expected.size() < candidates.size());
      const auto some = postprocess::nms(candidates, 0.5, agnostic, 10);
      CHECK(some == std::vector<std::size_t>(expected.begin(), expected.begin() + 10));
    }
  }
}

TEST_CASE("boxes outside the image are not compared with another class", "[postprocess]") {
  const std::vector<Candidate> candidates = {
      {{-50, -50, 30, 30}, 0.9F, 1}, {{-50, -50, 30, 30}, 0.8F, 0}, {{-50, -50, 31, 30}, 0.7F, 1}};
  CHECK(postprocess::nms(candidates, 0.5) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("most confident candidates: ties keep their order", "[postprocess]") {
  std::vector<Candidate> candidates;
  for (int i = 0; i < 100; ++i) candidates.push_back({{}, static_cast<float>(i % 3), i});
  postprocess::keep_most_confident(candidates, 40);
  REQUIRE(candidates.size() == 40);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const bool falls = candidates[i - 1].score > candidates[i].score;
    CHECK((falls || (candidates[i - 1].score == candidates[i].score &&
                     candidates[i - 1].label < candidates[i].label)));
  }
}

TEST_CASE("an untrained network's flood of candidates takes bounded time", "[postprocess]") {
  // 8,400 anchors times 80 classes all above the threshold, boxes on top of each other.
  const at::Tensor boxes = at::rand({1, 8400, 4}) + at::tensor({0.F, 0.F, 50.F, 50.F});
  const at::Tensor scores = at::rand({1, 8400, 80}) * 0.01 + 0.5;
  const auto callback = make_callback(0.01, 0.7, 1000, 300);
  const auto start = std::chrono::steady_clock::now();
  const auto out = (*callback)({{"boxes", boxes}, {"scores", scores}});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(out[0].size(0) == 80);
}

TEST_CASE("empty batches, images and half precision", "[postprocess]") {
  const auto callback = make_callback(0.3, 0.5, 100, 10);
  CHECK((*callback)({{"boxes", at::zeros({0, 5, 4})}, {"scores", at::zeros({0, 5, 2})}}).empty());
  const auto out = (*callback)({{"boxes", at::ones({1, 5, 4}, at::kBFloat16)},
                                {"scores", at::full({1, 5, 2}, 0.5, at::kBFloat16)}});
  CHECK(out[0].scalar_type() == at::kFloat);
  CHECK(out[0].size(1) == 6);
  CHECK_THROWS_WITH(make_callback(0.3, 1.5, 100, 10), Catch::Contains("nms_threshold"));
  CHECK_THROWS_WITH(make_callback(0.3, 0.5, 0, 10), Catch::Contains("nms_top_k"));
}
