// Preprocessing for prediction against the reference implementation (tests/golden/transforms).
#include "data/processing.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "image/image.h"
#include "support/safetensors_reader.h"
#include "support/transform_tools.h"

using namespace sgtrain;
using core::Tree;
using data::processing_entry;
using support::list_of;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(SGTRAIN_GOLDEN_DIR) / "transforms";

core::TreePtr number(std::int64_t v) {
  return Tree::of(v);
}

data::ProcessingList yolo_nas(std::int64_t longest, std::int64_t pad) {
  return {processing_entry("DetectionLongestMaxSizeRescale",
                           {{"output_shape", list_of({double(longest), double(longest)})}}),
          processing_entry(
              "DetectionCenterPadding",
              {{"output_shape", list_of({double(pad), double(pad)})}, {"pad_value", number(114)}}),
          processing_entry("StandardizeImage", {{"max_value", Tree::of(255.0)}}),
          processing_entry("ImagePermute", {{"permutation", list_of({2, 0, 1})}})};
}

/// The network input as floats in CHW order.
std::vector<float> chw(const data::NetworkInput& input, const data::Normalisation& n) {
  std::vector<float> out;
  for (std::size_t c = 0; c < 3; ++c) {
    for (int y = 0; y < input.image.rows; ++y) {
      for (int x = 0; x < input.image.cols; ++x) {
        const double v = input.image.at<cv::Vec3b>(y, x)[static_cast<int>(c)];
        out.push_back(static_cast<float>((v - n.mean[c]) / n.std[c]));
      }
    }
  }
  return out;
}

void check_post_boxes(const data::NetworkInput& input, const support::PlainTensor& expected) {
  const std::array<std::array<float, 4>, 2> boxes{{{10, 20, 100, 120}, {0, 5, 60.5F, 33.25F}}};
  const auto values = expected.values<float>();
  for (std::size_t i = 0; i < 2; ++i) {
    std::array<float, 4> actual = boxes[i];
    input.geometry().to_original(actual[0], actual[1]);
    input.geometry().to_original(actual[2], actual[3]);
    for (std::size_t k = 0; k < 4; ++k) CHECK(std::abs(actual[k] - values[4 * i + k]) < 1e-3);
  }
}

}  // namespace

TEST_CASE("preprocessing gives the reference's network input and maps boxes back",
          "[processing][golden]") {
  const auto golden = support::read_plain_safetensors(kFolder / "processing.safetensors");
  const cv::Mat image = image::decode_file(kFolder / "image.png").image;

  struct Case {
    std::string name;
    data::ProcessingList list;
    double tolerance;  // of one byte step, in network units
  };
  const std::vector<Case> cases{
      {"yolonas_like_156_160", yolo_nas(156, 160), 1.01 / 255.0},
      {"default_yolo_nas_640", yolo_nas(636, 640), 1.01 / 255.0},
      {"ppyoloe_like",
       {processing_entry("ReverseImageChannels"),
        processing_entry("DetectionRescale", {{"output_shape", list_of({96, 96})}}),
        processing_entry("NormalizeImage", {{"mean", list_of({123.675, 116.28, 103.53})},
                                            {"std", list_of({58.395, 57.12, 57.375})}}),
        processing_entry("ImagePermute")},
       1.01 / 57.12},
      {"imagenet_default",
       {processing_entry("Resize", {{"size", number(256)}}),
        processing_entry("CenterCrop", {{"size", number(224)}}),
        processing_entry("StandardizeImage"),
        processing_entry("NormalizeImage", {{"mean", list_of({0.485, 0.456, 0.406})},
                                            {"std", list_of({0.229, 0.224, 0.225})}}),
        processing_entry("ImagePermute")},
       1e-5},  // Pillow's arithmetic is met exactly
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const auto preprocessing = data::Preprocessing::from(c.list);
    const data::NetworkInput input = preprocessing(image);
    const std::vector<float> actual = chw(input, preprocessing.normalisation());
    const bool strided = golden.count(c.name + ".image@7") > 0;
    const auto expected = golden.at(c.name + (strided ? ".image@7" : ".image")).values<float>();
    const std::size_t stride = strided ? 7 : 1;
    REQUIRE(expected.size() == (actual.size() + stride - 1) / stride);
    double worst = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(expected[i] - actual[stride * i])));
    }
    CHECK(worst < c.tolerance);
    const auto post = golden.find(c.name + ".post_boxes");
    if (post != golden.end()) check_post_boxes(input, post->second);
  }
}

TEST_CASE("bottom right padding gives the reference's bytes and boxes", "[processing][golden]") {
  const auto golden = support::read_plain_safetensors(kFolder / "processing.safetensors");
  const cv::Mat image = image::decode_file(kFolder / "image.png").image;
  const auto expected = golden.at("bottom_right_160.image").values<std::uint8_t>();
  const auto preprocessing = data::Preprocessing::from(
      {processing_entry("DetectionLongestMaxSizeRescale", {{"output_shape", list_of({160, 160})}}),
       processing_entry("DetectionBottomRightPadding", {{"output_shape", list_of({160, 160})},
                                                        {"pad_value", number(expected.back())}}),
       processing_entry("ImagePermute")});
  const data::NetworkInput input = preprocessing(image);
  const std::vector<float> actual = chw(input, preprocessing.normalisation());
  REQUIRE(actual.size() == expected.size());
  // The reference's list reversed the channels or not: the first and last plane say so.
  double same = 0.0, reversed = 0.0;
  const std::size_t plane = actual.size() / 3;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::size_t other = (2 - i / plane) * plane + i % plane;
    same = std::max(same, std::abs(static_cast<double>(actual[i]) - expected[i]));
    reversed = std::max(reversed, std::abs(static_cast<double>(actual[other]) - expected[i]));
  }
  CHECK(std::min(same, reversed) <= 1.0);
  check_post_boxes(input, golden.at("bottom_right_160.post_boxes"));
}

TEST_CASE("steps of segmentation and classification match the reference", "[processing][golden]") {
  const auto golden = support::read_plain_safetensors(kFolder / "processing.safetensors");
  const cv::Mat image = image::decode_file(kFolder / "image.png").image;
  const cv::Mat resized = golden.at("seg_resize_pad.image").image();
  struct Case {
    std::string name;
    core::TreePtr entry;
    int tolerance;
  };
  const auto corner = [&](const char* name) {
    const cv::Mat m = golden.at(name).image();
    return number(m.at<cv::Vec3b>(m.rows - 1, m.cols - 1)[0]);
  };
  for (const Case& c : std::vector<Case>{
           {"resize_64", processing_entry("Resize", {{"size", number(64)}}), 0},
           {"center_crop_64", processing_entry("CenterCrop", {{"size", number(64)}}), 0},
           {"seg_pad_short",
            processing_entry(
                "SegmentationPadShortToCropSize",
                {{"crop_size", number(160)}, {"fill_image", corner("seg_pad_short.image")}}),
            0},
           {"seg_rescale_half",
            processing_entry("SegmentationRescale", {{"scale_factor", Tree::of(0.5)}}), 1},
           {"seg_resize",
            processing_entry("SegmentationResize", {{"output_shape", list_of({64, 80})}}), 1},
           {"seg_pad_div32",
            processing_entry(
                "SegmentationPadToDivisible",
                {{"divisible_value", number(32)}, {"fill_image", corner("seg_pad_div32.image")}}),
            0},
           {"seg_resize_pad",
            processing_entry("SegmentationResizeWithPadding",
                             {{"output_shape", list_of({128, 128})},
                              {"pad_value", number(resized.at<cv::Vec3b>(0, 0)[0])}}),
            1},
           {"auto_padding_32",
            processing_entry("DetectionAutoPadding",
                             {{"shape_multiple", list_of({32, 32})},
                              {"pad_value", corner("auto_padding_32.image")}}),
            0},
       }) {
    INFO(c.name);
    const auto preprocessing = data::Preprocessing::from({c.entry});
    const data::NetworkInput input = preprocessing(image);
    CHECK(support::largest_difference(input.image, golden.at(c.name + ".image").image()) <=
          c.tolerance);
    // A mask comes back in the original size.
    const cv::Mat mask(input.image.size(), CV_8UC1, cv::Scalar(3));
    CHECK(data::mask_to_original(input, mask).size() == image.size());
  }
}

TEST_CASE("geometry needs no picture, and takes boxes back to the picture", "[processing]") {
  const auto preprocessing = data::Preprocessing::from(
      {processing_entry("DetectionLongestMaxSizeRescale",
                        {{"output_shape", list_of({160, 160})}, {"cut_sides", Tree::of(true)}}),
       processing_entry("DetectionCenterPadding", {{"output_shape", list_of({160, 160})}})});
  const cv::Size picture(643, 301);
  const core::Geometry geometry = preprocessing.geometry(picture);
  const data::NetworkInput input = preprocessing(cv::Mat(picture, CV_8UC3, cv::Scalar::all(7)));
  REQUIRE(input.mappings.size() == 2);
  CHECK(input.mappings[0].after == cv::Size(160, 74));  // 74.9 rows: cut, not rounded
  CHECK(input.image.at<cv::Vec3b>(43, 80)[0] == 7);
  CHECK(input.image.at<cv::Vec3b>(42, 80)[0] == 114);
  CHECK(geometry.width == 643);
  CHECK(geometry.height == 301);
  REQUIRE(geometry.steps.size() == input.geometry().steps.size());
  for (std::size_t i = 0; i < geometry.steps.size(); ++i) {
    CHECK(geometry.steps[i].scale_x == input.geometry().steps[i].scale_x);
    CHECK(geometry.steps[i].shift_y == input.geometry().steps[i].shift_y);
  }
  const auto box = geometry.box_to_original({-3, 43, 80, 83});
  CHECK(box[0] == Approx(-3 * 643 / 160.0));  // may leave the picture
  CHECK(box[1] == 0.0F);
  CHECK(box[2] == Approx(80 * 643 / 160.0));
  CHECK(box[3] == Approx(40 * 643 / 160.0));
}

TEST_CASE("preprocessing survives being stored and read again", "[processing]") {
  const auto first = data::Preprocessing::from(yolo_nas(636, 640));
  const auto second = data::Preprocessing::from(first.list());
  CHECK(second.normalisation() == first.normalisation());
  CHECK(second.output_shape() == cv::Size(640, 640));
  const cv::Mat image = support::smooth_image(200, 333);
  CHECK(support::largest_difference(first(image).image, second(image).image) == 0);

  const auto plain = first.without_resizing();
  CHECK(plain(image).image.size() == cv::Size(352, 224));
  CHECK(plain.normalisation() == first.normalisation());
}

TEST_CASE("a composed list is taken apart; mistakes are named", "[processing]") {
  const core::TreePtr inner = Tree::make_list();
  for (const auto& entry : yolo_nas(156, 160)) inner->list.push_back(entry);
  const auto composed =
      data::Preprocessing::from({processing_entry("ComposeProcessing", {{"processings", inner}})});
  CHECK(composed.list().size() == 4);

  CHECK_THROWS_WITH(data::Preprocessing::from({processing_entry("DetectionCentrePadding")}),
                    Catch::Contains("DetectionCenterPadding"));
  CHECK_THROWS_WITH(
      data::Preprocessing::from({processing_entry("StandardizeImage", {{"max_valu", number(3)}})}),
      Catch::Contains("max_value"));
  CHECK_THROWS_WITH(data::Preprocessing::from({processing_entry("StandardizeImage"),
                                               processing_entry("Resize", {{"size", number(3)}})}),
                    Catch::Contains("behind normalisation"));
}

TEST_CASE("a validation list becomes preprocessing that gives the same network input",
          "[processing]") {
  const auto pipeline = support::make_pipeline(
      {{"DetectionRGB2BGR", {{"prob", Tree::of(1.0)}}},
       {"DetectionPadToSize", {{"output_size", list_of({640, 640})}, {"pad_value", number(114)}}},
       {"DetectionStandardize", {}},
       {"DetectionImagePermute", {}},
       {"DetectionTargetsFormatTransform", {{"input_dim", list_of({640, 640})}}}},
      /*reversed=*/true);
  const auto preprocessing = data::Preprocessing::from(pipeline.processing(cv::Size(636, 636)));
  const auto direct = data::Preprocessing::from(yolo_nas(636, 640));
  const cv::Mat image = support::smooth_image(480, 640);
  CHECK(support::largest_difference(preprocessing(image).image, direct(image).image) == 0);
  CHECK(preprocessing.normalisation() == pipeline.normalisation());

  const auto random =
      support::make_pipeline({{"DetectionHorizontalFlip", {{"prob", Tree::of(0.5)}}}});
  CHECK_THROWS_WITH(random.processing({}), Catch::Contains("random"));
}
