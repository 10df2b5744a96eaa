#include "image/draw.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "support/image_files.h"

namespace sgtrain::image {
namespace {

TEST_CASE("class colours are gist_rainbow, reversed") {
  // Computed with matplotlib's definition of the map: the first entry is (255, 0, 40) in its own
  // order, the last (255, 0, 191).
  const auto colors = class_colors(5);
  REQUIRE(colors.size() == 5);
  CHECK(colors.front() == cv::Scalar(40, 0, 255));
  CHECK(colors.back() == cv::Scalar(191, 0, 255));
  // A quarter of the way: between yellow (0.215) and green (0.400), 0.035 / 0.185 of the step.
  CHECK(colors[1] == cv::Scalar(0, 255, 206));
  CHECK(class_colors(1).front() == cv::Scalar(191, 0, 255));
  CHECK_THROWS_AS(class_colors(0), core::Error);
}

TEST_CASE("boxes are drawn at their edges, blended, and only there") {
  cv::Mat image(200, 300, CV_8UC3, cv::Scalar(0, 0, 0));
  const std::vector<LabelledBox> boxes = {{50, 80, 149, 179, 0, 0.87F}};
  draw_boxes(image, boxes, std::vector<std::string>{"cell"});
  const cv::Scalar color = class_colors(1).front();
  const auto edge = image.at<cv::Vec3b>(150, 50);
  for (int c = 0; c < 3; ++c) CHECK(std::abs(edge[c] - color[c] * 0.75) <= 1);
  CHECK(image.at<cv::Vec3b>(150, 100) == cv::Vec3b(0, 0, 0));
  CHECK(image.at<cv::Vec3b>(20, 250) == cv::Vec3b(0, 0, 0));
  CHECK(cv::countNonZero(image(cv::Rect(50, 60, 60, 18)).reshape(1)) > 200);  // the label
}

TEST_CASE("boxes outside, inverted or without a number do not crash") {
  cv::Mat image(40, 40, CV_8UC3, cv::Scalar::all(9));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<LabelledBox> boxes = {{-1e9F, -5, 1e9F, 1e30F, 3, 1},
                                          {30, 30, 10, 10, -2, 0.5F},
                                          {nan, nan, nan, nan, 70'000, nan}};
  draw_boxes(image, boxes, {});
  CHECK(image.size() == cv::Size(40, 40));
  cv::Mat none;
  draw_boxes(none, boxes, {});
  CHECK(none.empty());
}

TEST_CASE("a grid holds every image in its cell") {
  std::vector<cv::Mat> images;
  std::vector<std::string> captions;
  for (int i = 0; i < 5; ++i) {
    images.emplace_back(28, 28, CV_8UC3, cv::Scalar(10 + i, 0, 0));
    captions.push_back("class " + std::to_string(i));
  }
  const GridOptions options{.columns = 3, .cell = {56, 56}, .gap = 4};
  const cv::Mat grid = image_grid(images, captions, options);
  const int step_y = 56 + 22 + 4, step_x = 60;
  CHECK(grid.size() == cv::Size(3 * step_x + 4, 2 * step_y + 4));
  for (int i = 0; i < 5; ++i) {
    const auto pixel = grid.at<cv::Vec3b>(4 + i / 3 * step_y + 28, 4 + i % 3 * step_x + 28);
    CHECK(pixel == cv::Vec3b(static_cast<std::uint8_t>(10 + i), 0, 0));
  }
  CHECK(cv::countNonZero(255 - grid(cv::Rect(4, 60, 56, 20)).clone().reshape(1)) > 50);  // caption
  CHECK_THROWS_AS(image_grid({}, {}), core::Error);
  CHECK_THROWS_AS(image_grid(images, std::vector<std::string>{"one"}), core::Error);
}

TEST_CASE("a caption changes the top edge only") {
  cv::Mat image(100, 100, CV_8UC3, cv::Scalar::all(7));
  draw_caption(image, "Ankle boot 0.99", {0, 0, 0});
  CHECK(image.at<cv::Vec3b>(90, 50) == cv::Vec3b::all(7));
  CHECK(support::max_difference(image, cv::Mat(100, 100, CV_8UC3, cv::Scalar::all(7))) > 50);
}

}  // namespace
}  // namespace sgtrain::image
