// Pillow's arithmetic against values that Pillow computed (tests/peer/pillow_ops.py makes them).
#include <catch2/catch.hpp>

#include "support/pillow_ops.h"
#include "support/safetensors_reader.h"
#include "support/transform_tools.h"

using namespace sgtrain;

TEST_CASE("operations give Pillow's bytes", "[pillow][golden]") {
  const auto golden = support::read_plain_safetensors(std::filesystem::path(SGTRAIN_GOLDEN_DIR) /
                                                      "pillow" / "pillow.safetensors");
  const cv::Mat image = golden.at("image").image();
  for (const auto& [line, expected] : golden) {
    if (line == "image") continue;
    INFO(line);
    CHECK(support::largest_difference(support::run_pillow_op(image, line), expected.image()) == 0);
  }
}

TEST_CASE("a crop is resized as if it were an image of its own", "[pillow]") {
  const cv::Mat image = support::noise_image(50, 60);
  const cv::Rect window(7, 9, 31, 22);
  cv::Mat a(13, 40, CV_8UC3), b(13, 40, CV_8UC3);
  data::pillow::resize(image(window), data::pillow::Filter::kBicubic, a);
  data::pillow::resize(image(window).clone(), data::pillow::Filter::kBicubic, b);
  CHECK(support::largest_difference(a, b) == 0);
}
