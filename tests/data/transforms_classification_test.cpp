// Classification transforms: sizes, ranges, folding and what random ones may do. Pixel parity with
// Pillow is in pillow_test.cpp.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "core/error.h"
#include "data/pillow.h"
#include "support/transform_tools.h"

using namespace sgtrain;
using core::Tree;
using support::largest_difference;
using support::list_of;
using support::make_pipeline;
using support::noise_image;

namespace {

core::TreePtr number(std::int64_t v) {
  return Tree::of(v);
}
core::TreePtr real(double v) {
  return Tree::of(v);
}

data::Sample sample_of(cv::Mat image) {
  data::Sample sample;
  sample.image = std::move(image);
  sample.name = "a.png";
  return sample;
}

}  // namespace

TEST_CASE("random crop pads and visits every offset", "[transforms]") {
  const auto pipeline =
      make_pipeline({{"RandomCrop", {{"size", number(32)}, {"padding", number(4)}}}});
  CHECK(pipeline.output_size() == cv::Size(32, 32));
  const cv::Mat image = noise_image(32, 32);
  cv::Mat padded(40, 40, CV_8UC3, cv::Scalar::all(0));
  image.copyTo(padded(cv::Rect(4, 4, 32, 32)));
  std::set<std::pair<int, int>> offsets;
  for (std::uint64_t i = 0; i < 600; ++i) {
    const cv::Mat out = support::run(pipeline, sample_of(image), {i}).image;
    REQUIRE(out.size() == cv::Size(32, 32));
    for (int y = 0; y <= 8; ++y) {
      for (int x = 0; x <= 8; ++x) {
        if (largest_difference(out, padded(cv::Rect(x, y, 32, 32)).clone()) == 0)
          offsets.insert({x, y});
      }
    }
  }
  CHECK(offsets.size() == 81);
  CHECK_THROWS_WITH(
      support::run(make_pipeline({{"RandomCrop", {{"size", number(64)}}}}), sample_of(image)),
      Catch::Contains("a.png"));
}

TEST_CASE("the shorter side is resized and the centre cut as torchvision does", "[transforms]") {
  const auto pipeline =
      make_pipeline({{"Resize", {{"size", number(236)}}}, {"CenterCrop", {{"size", number(224)}}}});
  CHECK(pipeline.output_size() == cv::Size(224, 224));
  const cv::Mat image = noise_image(300, 417);
  cv::Mat resized(236, 328, CV_8UC3);  // int(236 * 417 / 300)
  data::pillow::resize(image, data::pillow::Filter::kBilinear, resized);
  const cv::Mat out = support::run(pipeline, sample_of(image)).image;
  CHECK(largest_difference(out, resized(cv::Rect(52, 6, 224, 224)).clone()) == 0);

  const auto alone = make_pipeline({{"Resize", {{"size", number(32)}}}});
  CHECK(!alone.output_size());
  CHECK(largest_difference(support::run(alone, sample_of(noise_image(32, 32))).image,
                           noise_image(32, 32)) == 0);
}

TEST_CASE("random resized crops stay inside and vary", "[transforms]") {
  const auto pipeline =
      make_pipeline({{"RandomResizedCropAndInterpolation",
                      {{"size", number(24)}, {"interpolation", Tree::of("random")}}}});
  const cv::Mat image = support::smooth_image(90, 120);
  std::set<std::string> different;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const cv::Mat out = support::run(pipeline, sample_of(image), {i}).image;
    REQUIRE(out.size() == cv::Size(24, 24));
    different.insert(std::string(out.ptr<char>(0), 72));
  }
  CHECK(different.size() > 45);
  // Extreme shapes take the central fallback.
  CHECK(support::run(pipeline, sample_of(noise_image(2, 400))).image.size() == cv::Size(24, 24));
}

TEST_CASE("ToTensor and Normalize fold to the reference's arithmetic", "[transforms]") {
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
  const auto pipeline = make_pipeline(
      {{"ToTensor", {}}, {"Normalize", {{"mean", list_of(mean)}, {"std", list_of(std)}}}});
  for (std::size_t c = 0; c < 3; ++c) {
    for (const double v : {0.0, 1.0, 127.0, 255.0}) {
      const double expected = (v / 255.0 - mean[c]) / std[c];
      const auto& n = pipeline.normalisation();
      CHECK((v - n.mean[c]) / n.std[c] == Approx(expected).margin(1e-12));
      CHECK(n.to_pixel(c, expected) == Approx(v).margin(1e-9));
    }
  }
  CHECK(make_pipeline({{"Standardize", {{"max_val", real(128.0)}}}}).normalisation().std[1] ==
        128.0);
}

TEST_CASE("random erase behind normalisation writes the bytes that give its values",
          "[transforms]") {
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
  const auto list = [&](core::TreePtr value) {
    return make_pipeline(
        {{"ToTensor", {}},
         {"Normalize", {{"mean", list_of(mean)}, {"std", list_of(std)}}},
         {"RandomErase", {{"probability", real(1.0)}, {"value", std::move(value)}}}});
  };
  const cv::Mat white(40, 40, CV_8UC3, cv::Scalar::all(255));
  // 0 is the mean: 123.675, 116.28, 103.53.
  const cv::Mat zero = support::run(list(Tree::of("0")), sample_of(white), {3}).image;
  int erased = 0, wrong = 0;
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 40; ++x) {
      const cv::Vec3b p = zero.at<cv::Vec3b>(y, x);
      if (p == cv::Vec3b(255, 255, 255)) continue;
      ++erased;
      wrong += p != cv::Vec3b(124, 116, 104);
    }
  }
  CHECK(erased >= 32);  // at least 2 % of the area
  CHECK(erased <= 560);
  CHECK(wrong == 0);
  const cv::Mat noise = support::run(list(Tree::of("random")), sample_of(white), {3}).image;
  std::set<int> values;
  for (int i = 0; i < 1600; ++i) values.insert(noise.at<cv::Vec3b>(i / 40, i % 40)[0]);
  CHECK(values.size() > 20);
}

TEST_CASE("lighting adds one colour to the whole image", "[transforms]") {
  const auto pipeline = make_pipeline({{"ToTensor", {}}, {"Lighting", {{"alphastd", real(0.1)}}}});
  const cv::Mat gray(6, 6, CV_8UC3, cv::Scalar::all(120));
  double mean_change = 0.0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const cv::Mat out = support::run(pipeline, sample_of(gray), {i}).image;
    const cv::Vec3b p = out.at<cv::Vec3b>(0, 0);
    CHECK(largest_difference(out, cv::Mat(6, 6, CV_8UC3, cv::Scalar(p[0], p[1], p[2]))) == 0);
    mean_change += std::abs(p[0] - 120.0);
  }
  // 0.1 * 0.2175 * 0.5675 * 255 = 3.1 standard deviation along the first axis.
  CHECK(mean_change / 50 > 1.0);
  CHECK(mean_change / 50 < 6.0);
}

TEST_CASE("rand augment draws from the whole list and keeps the size", "[transforms]") {
  for (const std::string config :
       {"rand-m7-mstd0.5", "rand-m9-n3-mstd0.5-inc1", "rand-m10-w0", "rand-mstdinf"}) {
    INFO(config);
    const auto pipeline = make_pipeline({{"RandAugmentTransform",
                                          {{"config_str", Tree::of(config)},
                                           {"crop_size", number(224)},
                                           {"img_mean", list_of({0.485, 0.456, 0.406})}}}});
    const cv::Mat image = support::smooth_image(30, 40);
    std::set<std::string> different;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const cv::Mat out = support::run(pipeline, sample_of(image), {i}).image;
      REQUIRE(out.size() == image.size());
      different.insert(std::string(out.ptr<char>(7), 120));
    }
    CHECK(different.size() > 40);
    CHECK(different.size() < 200);  // both operations are left out now and then
  }
}

TEST_CASE("colour jitter stays within its factors", "[transforms]") {
  const auto pipeline = make_pipeline({{"ColorJitter", {{"brightness", list_of({0.5, 0.8})}}}});
  const cv::Mat gray(4, 4, CV_8UC3, cv::Scalar::all(200));
  for (std::uint64_t i = 0; i < 30; ++i) {
    const int v = support::run(pipeline, sample_of(gray), {i}).image.at<cv::Vec3b>(0, 0)[0];
    CHECK(v >= 100);
    CHECK(v <= 160);
  }
  CHECK_THROWS_WITH(make_pipeline({{"ColorJitter", {{"hue", real(0.7)}}}}), Catch::Contains("hue"));
}

TEST_CASE("nested Compose lists are taken apart", "[transforms]") {
  const core::TreePtr inner = Tree::make_list();
  inner->list.push_back(Tree::of("RandomHorizontalFlip"));
  inner->list.push_back(Tree::of("ToTensor"));
  const auto pipeline = make_pipeline({{"Compose", {{"transforms", inner}}}});
  CHECK(pipeline.names() == std::vector<std::string>{"RandomHorizontalFlip", "ToTensor"});
}
