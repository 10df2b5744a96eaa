// Detection transforms against the reference implementation's outputs (tests/golden/transforms).
#include <catch2/catch.hpp>
#include <cmath>

#include "data/boxes.h"
#include "image/image.h"
#include "support/safetensors_reader.h"
#include "support/transform_tools.h"

using namespace sgtrain;
using core::Tree;
using support::list_of;

namespace {

using Golden = std::map<std::string, support::PlainTensor>;
const std::filesystem::path kFolder = std::filesystem::path(SGTRAIN_GOLDEN_DIR) / "transforms";

std::vector<data::Box> boxes_of(const Golden& golden, const std::string& key) {
  const auto values = golden.at(key).values<float>();
  const auto labels = golden.at("labels").values<float>();
  std::vector<data::Box> out;
  for (std::size_t i = 0; i + 3 < values.size(); i += 4) {
    out.push_back({values[i], values[i + 1], values[i + 2], values[i + 3],
                   static_cast<std::int32_t>(labels[i / 4])});
  }
  return out;
}

void check_boxes(const std::vector<data::Box>& actual, const std::vector<data::Box>& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CHECK(actual[i].label == expected[i].label);
    CHECK(std::abs(actual[i].x1 - expected[i].x1) < 1e-4);
    CHECK(std::abs(actual[i].y1 - expected[i].y1) < 1e-4);
    CHECK(std::abs(actual[i].x2 - expected[i].x2) < 1e-4);
    CHECK(std::abs(actual[i].y2 - expected[i].y2) < 1e-4);
  }
}

/// Stored HWC or CHW.
cv::Mat golden_image(const support::PlainTensor& tensor) {
  if (tensor.shape[2] == 3) return tensor.image();
  const int h = static_cast<int>(tensor.shape[1]), w = static_cast<int>(tensor.shape[2]);
  const auto bytes = tensor.values<std::uint8_t>();
  cv::Mat out(h, w, CV_8UC3);
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < h; ++y) {
      for (int x = 0; x < w; ++x) {
        out.at<cv::Vec3b>(y, x)[c] = bytes[static_cast<std::size_t>((c * h + y) * w + x)];
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("detection transforms give the reference's images and boxes", "[transforms][golden]") {
  const Golden golden = support::read_plain_safetensors(kFolder / "detection.safetensors");
  data::Sample sample;
  sample.image = image::decode_file(kFolder / "image.png").image;
  sample.boxes = boxes_of(golden, "boxes_xyxy");
  const auto whole = [](std::int64_t v) { return Tree::of(v); };

  struct Case {
    std::string name, transform;
    support::Params params;
  };
  const std::vector<Case> cases{
      {"rescale_96x128", "DetectionRescale", {{"output_shape", list_of({96, 128})}}},
      {"rescale_300x200", "DetectionRescale", {{"output_shape", list_of({300, 200})}}},
      {"rescale_64", "DetectionRescale", {{"output_shape", whole(64)}}},
      {"padded_rescale_160", "DetectionPaddedRescale", {{"input_dim", whole(160)}}},
      {"padded_rescale_96x224",
       "DetectionPaddedRescale",
       {{"input_dim", list_of({96, 224})}, {"pad_value", whole(57)}}},
      {"longest_max_100",
       "DetectionLongestMaxSize",
       {{"max_height", whole(100)}, {"max_width", whole(100)}}},
      {"longest_max_240x200",
       "DetectionLongestMaxSize",
       {{"max_height", whole(240)}, {"max_width", whole(200)}}},
      {"pad_to_size",
       "DetectionPadToSize",
       {{"output_size", whole(160)}, {"pad_value", whole(114)}}},
      {"rgb2bgr", "DetectionRGB2BGR", {{"prob", Tree::of(1.0)}}},
      {"hflip", "DetectionHorizontalFlip", {{"prob", Tree::of(1.0)}}},
      {"vflip", "DetectionVerticalFlip", {{"prob", Tree::of(1.0)}}},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const auto pipeline = support::make_pipeline({{c.transform, c.params}});
    const data::Sample out = support::run(pipeline, sample);
    CHECK(support::largest_difference(out.image, golden_image(golden.at(c.name + ".image"))) <= 1);
    check_boxes(out.boxes, boxes_of(golden, c.name + ".boxes"));
  }
}

TEST_CASE("padding gives the reference's images and boxes", "[transforms][golden]") {
  const Golden golden = support::read_plain_safetensors(kFolder / "detection.safetensors");
  data::Sample sample;
  sample.image = image::decode_file(kFolder / "image.png").image;
  sample.boxes = boxes_of(golden, "boxes_xyxy");
  for (const std::string mode : {"bottom_right", "center"}) {
    const std::string name = mode == "center" ? "pad_if_needed_center" : "pad_if_needed_br";
    const cv::Mat expected = golden.at(name + ".image").image();
    // The pad's value is in the picture's last corner.
    const int pad = expected.at<cv::Vec3b>(expected.rows - 1, expected.cols - 1)[0];
    const auto pipeline =
        support::make_pipeline({{"DetectionPadIfNeeded",
                                 {{"min_height", Tree::of(std::int64_t{expected.rows})},
                                  {"min_width", Tree::of(std::int64_t{expected.cols})},
                                  {"pad_value", Tree::of(std::int64_t{pad})},
                                  {"padding_mode", Tree::of(mode)}}}});
    const data::Sample out = support::run(pipeline, sample);
    CHECK(support::largest_difference(out.image, expected) == 0);
    check_boxes(out.boxes, boxes_of(golden, name + ".boxes"));
  }
}

TEST_CASE("normalisation is folded and gives the reference's values", "[transforms][golden]") {
  const Golden golden = support::read_plain_safetensors(kFolder / "detection.safetensors");
  const cv::Mat image = image::decode_file(kFolder / "image.png").image;
  const std::vector<double> mean{0.485, 0.456, 0.406}, std{0.229, 0.224, 0.225};
  const auto standardize = support::make_pipeline({{"DetectionStandardize", {}}});
  const auto normalize = support::make_pipeline(
      {{"DetectionNormalize", {{"mean", list_of(mean)}, {"std", list_of(std)}}}});
  for (const auto& [name, pipeline] :
       {std::pair<std::string, const data::Pipeline*>{"standardize", &standardize},
        {"normalize", &normalize}}) {
    const auto expected = golden.at(name + ".image@7").values<float>();
    const data::Normalisation& n = pipeline->normalisation();
    double worst = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t at = 7 * i;
      const double value = (image.data[at] - n.mean[at % 3]) / n.std[at % 3];
      worst = std::max(worst, std::abs(value - static_cast<double>(expected[i])));
    }
    INFO(name);
    CHECK(worst < 1e-4);  // values reach 1100: single precision
  }
}

TEST_CASE("targets are the reference's (class, cx, cy, w, h)", "[transforms][golden]") {
  const Golden golden = support::read_plain_safetensors(kFolder / "detection.safetensors");
  const auto boxes = boxes_of(golden, "boxes_xyxy");
  const auto expected = golden.at("targets_label_cxcywh").values<float>();
  const auto back = golden.at("back_xyxy").values<float>();
  REQUIRE(expected.size() == 5 * boxes.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const data::TargetRow row = data::target_row(boxes[i]);
    const std::array<float, 5> values{row.label, row.cx, row.cy, row.w, row.h};
    for (std::size_t k = 0; k < 5; ++k) CHECK(std::abs(values[k] - expected[5 * i + k]) < 1e-4);
    const data::Box again = data::box_of(row);
    CHECK(std::abs(again.x1 - back[4 * i]) < 1e-4);
    CHECK(std::abs(again.y2 - back[4 * i + 3]) < 1e-4);
  }
}
