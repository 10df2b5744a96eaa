// The fast kernels against the OpenCV functions that they stand for: every byte equal.
#include "data/pixels.h"

#include <catch2/catch.hpp>
#include <opencv2/imgproc.hpp>

#include "support/transform_tools.h"

using namespace sgtrain;
using support::largest_difference;
using support::noise_image;

TEST_CASE("resize_linear equals cv::resize", "[pixels]") {
  for (const auto& [h, w, oh, ow] : std::vector<std::array<int, 4>>{{48, 64, 48, 64},
                                                                    {48, 64, 24, 32},
                                                                    {48, 64, 96, 128},
                                                                    {47, 61, 33, 90},
                                                                    {5, 7, 200, 3},
                                                                    {1, 1, 9, 9},
                                                                    {480, 640, 477, 636},
                                                                    {99, 150, 66, 100},
                                                                    {2, 300, 3, 299}}) {
    const cv::Mat src = noise_image(h, w);
    cv::Mat expected, actual(oh, ow, CV_8UC3);
    cv::resize(src, expected, cv::Size(ow, oh), 0, 0, cv::INTER_LINEAR);
    data::resize_linear(src, actual);
    INFO(h << "x" << w << " -> " << oh << "x" << ow);
    CHECK(largest_difference(actual, expected) == 0);
  }
}

TEST_CASE("a part of a resize is the same part of the whole", "[pixels]") {
  const cv::Mat src = noise_image(60, 80);
  for (const cv::Size full :
       {cv::Size(123, 77), cv::Size(40, 30), cv::Size(55, 41), cv::Size(80, 60)}) {
    cv::Mat whole;
    cv::resize(src, whole, full);
    const cv::Rect part(full.width / 5, full.height / 3, full.width / 2, full.height / 2);
    cv::Mat canvas(full.height, full.width, CV_8UC3, cv::Scalar::all(9));
    data::resize_linear(src, full, part, canvas(part));
    CHECK(largest_difference(canvas(part), whole(part)) == 0);
    CHECK(canvas.at<cv::Vec3b>(0, 0) == cv::Vec3b(9, 9, 9));  // nothing is written outside
  }
}

TEST_CASE("warp_affine equals cv::warpAffine", "[pixels]") {
  core::Random random{3};
  for (int i = 0; i < 200; ++i) {
    const int h = 1 + static_cast<int>(random.below(90)),
              w = 1 + static_cast<int>(random.below(90));
    const cv::Mat src = noise_image(h, w, static_cast<std::uint64_t>(i));
    const cv::Size size(1 + static_cast<int>(random.below(100)),
                        1 + static_cast<int>(random.below(100)));
    std::array<double, 6> m{random.uniform(0.2, 3.0), 0,
                            random.uniform(-80, 80),  0,
                            random.uniform(0.2, 3.0), random.uniform(-80, 80)};
    if (i % 4 == 3) m[1] = random.uniform(-0.5, 0.5), m[3] = random.uniform(-0.5, 0.5);
    if (i % 7 == 0) m[2] = 1000;  // nothing of the source is left
    const cv::Scalar border = i % 2 == 0 ? cv::Scalar::all(114) : cv::Scalar(10, 20, 30);
    cv::Mat expected, actual(size, CV_8UC3);
    cv::warpAffine(src, expected, cv::Mat(2, 3, CV_64F, m.data()), size, cv::INTER_LINEAR,
                   cv::BORDER_CONSTANT, border);
    data::warp_affine(src, m, border, actual);
    INFO("case " << i);
    REQUIRE(largest_difference(actual, expected) == 0);
  }
}

TEST_CASE("flips and swaps equal OpenCV's", "[pixels]") {
  for (const int width : {1, 2, 5, 6, 15, 16, 33, 640}) {
    const cv::Mat src = noise_image(3, width);
    cv::Mat expected, actual = src.clone();
    cv::flip(src, expected, 1);
    data::flip_horizontally(actual);
    CHECK(largest_difference(actual, expected) == 0);
    cv::cvtColor(src, expected, cv::COLOR_RGB2BGR);
    actual = src.clone();
    data::swap_red_blue(actual);
    CHECK(largest_difference(actual, expected) == 0);
  }
}

TEST_CASE("shift_hsv equals the three steps in OpenCV", "[pixels]") {
  const cv::Mat src = noise_image(37, 53);
  for (const auto& [dh, ds, dv] : std::vector<std::array<int, 3>>{
           {0, 0, 0}, {18, 0, 0}, {-18, 30, -30}, {179, -255, 255}, {-1, -7, 9}, {90, 12, 0}}) {
    for (const bool bgr : {false, true}) {
      cv::Mat hsv, expected;
      cv::cvtColor(src, hsv, bgr ? cv::COLOR_BGR2HSV : cv::COLOR_RGB2HSV);
      for (int y = 0; y < hsv.rows; ++y) {
        for (int x = 0; x < hsv.cols; ++x) {
          cv::Vec3b& p = hsv.at<cv::Vec3b>(y, x);
          p[0] = static_cast<uchar>((p[0] + dh + 360) % 180);
          p[1] = static_cast<uchar>(std::clamp(p[1] + ds, 0, 255));
          p[2] = static_cast<uchar>(std::clamp(p[2] + dv, 0, 255));
        }
      }
      cv::cvtColor(hsv, expected, bgr ? cv::COLOR_HSV2BGR : cv::COLOR_HSV2RGB);
      cv::Mat actual = src.clone();
      data::shift_hsv(actual, dh, ds, dv, bgr);
      INFO(dh << " " << ds << " " << dv);
      CHECK(largest_difference(actual, expected) == 0);
    }
  }
}

TEST_CASE("blend_half is the floored mean", "[pixels]") {
  const cv::Mat a = noise_image(9, 41), b = noise_image(9, 41, 5);
  for (const bool swap : {false, true}) {
    cv::Mat out = a.clone();
    data::blend_half(out, b, swap);
    int wrong = 0;
    for (int y = 0; y < a.rows; ++y) {
      for (int x = 0; x < a.cols; ++x) {
        for (int c = 0; c < 3; ++c) {
          const int other = b.at<cv::Vec3b>(y, x)[swap ? 2 - c : c];
          wrong += out.at<cv::Vec3b>(y, x)[c] != (a.at<cv::Vec3b>(y, x)[c] + other) / 2;
        }
      }
    }
    CHECK(wrong == 0);
  }
}
