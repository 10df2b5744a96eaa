// What random transforms must keep to: disabled ones draw nothing, results are a function of the
// key, boxes follow pixels.
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "core/error.h"
#include "data/pixels.h"
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

data::Sample sample_of(cv::Mat image, std::vector<data::Box> boxes) {
  data::Sample sample;
  sample.image = std::move(image);
  sample.boxes = std::move(boxes);
  return sample;
}

/// The YOLO-NAS recipe's training list.
std::vector<std::pair<std::string, support::Params>> yolo_nas_transforms(int side) {
  return {
      {"DetectionRandomAffine",
       {{"degrees", number(0)},
        {"translate", real(0.25)},
        {"scales", list_of({0.5, 1.5})},
        {"shear", real(0.0)},
        {"target_size", Tree::null()},
        {"filter_box_candidates", Tree::of(true)},
        {"wh_thr", number(2)},
        {"area_thr", real(0.1)},
        {"ar_thr", number(20)}}},
      {"DetectionRGB2BGR", {{"prob", real(0.5)}}},
      {"DetectionHSV",
       {{"prob", real(0.5)}, {"hgain", number(18)}, {"sgain", number(30)}, {"vgain", number(30)}}},
      {"DetectionHorizontalFlip", {{"prob", real(0.5)}}},
      {"DetectionMixup",
       {{"input_dim", Tree::null()},
        {"mixup_scale", list_of({0.5, 1.5})},
        {"prob", real(0.5)},
        {"flip_prob", real(0.5)}}},
      {"DetectionPaddedRescale",
       {{"input_dim", list_of({double(side), double(side)})}, {"pad_value", number(114)}}},
      {"DetectionStandardize", {{"max_value", real(255.0)}}},
      {"DetectionTargetsFormatTransform", {{"output_format", Tree::of("LABEL_CXCYWH")}}}};
}

/// Red rectangle on black where the box is.
cv::Mat drawn(cv::Size size, const data::Box& box) {
  cv::Mat image(size, CV_8UC3, cv::Scalar::all(0));
  image(cv::Rect(static_cast<int>(box.x1), static_cast<int>(box.y1), static_cast<int>(box.width()),
                 static_cast<int>(box.height())))
      .setTo(cv::Scalar(255, 0, 0));
  return image;
}

/// Bounding box of red pixels of at least half intensity.
cv::Rect found(const cv::Mat& image) {
  cv::Mat mask(image.size(), CV_8UC1);
  for (int y = 0; y < image.rows; ++y) {
    for (int x = 0; x < image.cols; ++x) {
      const cv::Vec3b p = image.at<cv::Vec3b>(y, x);
      mask.at<uchar>(y, x) = p[0] >= 128 && p[1] < 64 ? 255 : 0;
    }
  }
  std::vector<cv::Point> points;
  cv::findNonZero(mask, points);
  cv::Point low(1 << 20, 1 << 20), high(-1, -1);
  for (const cv::Point& p : points) {
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  return points.empty() ? cv::Rect() : cv::Rect(low, high + cv::Point(1, 1));
}

}  // namespace

TEST_CASE("transforms with probability 0 are the identity and draw nothing", "[transforms]") {
  const support::Params off{{"prob", real(0.0)}};
  const std::vector<std::pair<std::string, support::Params>> disabled{
      {"DetectionMixup", {{"prob", real(0.0)}, {"mixup_scale", list_of({0.5, 1.5})}}},
      {"DetectionMosaic", {{"prob", real(0.0)}, {"input_dim", number(32)}}},
      {"DetectionMosaic", {{"enable_mosaic", Tree::of(false)}, {"input_dim", number(32)}}},
      {"DetectionMixup", {{"enable_mixup", Tree::of(false)}, {"mixup_scale", list_of({0.5, 1.5})}}},
      {"DetectionHSV", off},
      {"DetectionRGB2BGR", off},
      {"DetectionHorizontalFlip", off},
      {"DetectionVerticalFlip", off},
      {"DetectionRandomRotate90", off},
      {"DetectionLongestMaxSize",
       {{"prob", real(0.0)}, {"max_height", number(10)}, {"max_width", number(10)}}},
      {"DetectionRandomAffine",
       {{"degrees", number(0)},
        {"translate", number(0)},
        {"scales", list_of({1, 1})},
        {"shear", number(0)},
        {"target_size", Tree::null()}}},
      {"RandomHorizontalFlip", {{"p", real(0.0)}}},
      {"RandomVerticalFlip", {{"p", real(0.0)}}},
      {"RandomErase", {{"probability", real(0.0)}, {"value", Tree::of("random")}}},
      {"Lighting", {{"alphastd", real(0.0)}}},
      {"ColorJitter", {}},
      {"RandomRotation", {{"degrees", number(0)}}},
      {"RandomGrayscale", {{"p", real(0.0)}}},
  };
  const data::Sample sample = sample_of(noise_image(33, 47), {{1, 2, 30, 31, 3}});
  for (const auto& entry : disabled) {
    INFO(entry.first);
    const auto pipeline = make_pipeline({entry});
    data::Scratch scratch;
    data::Sample copy = sample;
    copy.image = sample.image.clone();
    data::Context context({1, 2, 3}, scratch);  // no source: a second sample would throw
    pipeline.apply(copy, context);
    CHECK(largest_difference(copy.image, sample.image) == 0);
    CHECK(copy.boxes == sample.boxes);
    CHECK(context.random.draws() == 0);
  }
}

TEST_CASE("a disabled transform changes nothing of the others", "[transforms]") {
  const data::Sample sample = sample_of(noise_image(48, 64), {{1, 2, 50, 31, 3}});
  const support::MemorySource source({sample});
  auto with = yolo_nas_transforms(64);
  with.insert(with.begin() + 2, {"DetectionVerticalFlip", {{"prob", real(0.0)}}});
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto a = support::run(make_pipeline(yolo_nas_transforms(64), true), sample, {i}, &source);
    const auto b = support::run(make_pipeline(with, true), sample, {i}, &source);
    CHECK(largest_difference(a.image, b.image) == 0);
    CHECK(a.boxes == b.boxes);
  }
}

TEST_CASE("results depend on the key only, not on memory or order", "[transforms]") {
  std::vector<data::Sample> samples;
  for (int i = 0; i < 6; ++i) {
    samples.push_back(sample_of(noise_image(40 + 3 * i, 70 - 5 * i, static_cast<std::uint64_t>(i)),
                                {{2, 3, 30, 30, i}}));
  }
  const support::MemorySource source(samples);
  const auto pipeline = make_pipeline(yolo_nas_transforms(64), true);
  data::Scratch shared;
  std::set<std::string> different;
  for (std::uint64_t pass = 0; pass < 2; ++pass) {
    for (std::uint64_t k = 0; k < 24; ++k) {
      const std::uint64_t i = pass == 0 ? k : 23 - k;
      const data::Sample alone = support::run(pipeline, samples[i % 6], {9, 0, i}, &source);
      data::Sample mixed = samples[i % 6];
      mixed.image = mixed.image.clone();
      cv::Mat slot(64, 64, CV_8UC3);
      data::Context context({9, 0, i}, shared, &source);
      pipeline.apply(mixed, context, slot);
      CHECK(mixed.image.data == slot.data);
      CHECK(largest_difference(slot, alone.image) == 0);
      CHECK(mixed.boxes == alone.boxes);
      different.insert(std::string(alone.image.ptr<char>(20), 192));
    }
  }
  CHECK(different.size() >= 20);  // it does augment
}

TEST_CASE("images made in their place of the batch equal those made elsewhere", "[transforms]") {
  const std::pair<std::string, support::Params> affine{"DetectionRandomAffine",
                                                       {{"degrees", number(0)},
                                                        {"scales", list_of({0.5, 1.5})},
                                                        {"shear", number(0)},
                                                        {"target_size", Tree::null()},
                                                        {"border_value", number(30)}}};
  const std::pair<std::string, support::Params> to_size{
      "DetectionPadToSize",
      {{"output_size", list_of({64, 64})}, {"pad_value", list_of({1, 2, 3})}}};
  const std::pair<std::string, support::Params> rescale{"DetectionPaddedRescale",
                                                        {{"input_dim", list_of({64, 64})}}};
  const std::pair<std::string, support::Params> crop{"RandomCrop", {{"size", list_of({30, 40})}}};
  const std::pair<std::string, support::Params> flip{"DetectionHorizontalFlip",
                                                     {{"prob", real(0.5)}}};
  const std::pair<std::string, support::Params> mixup{
      "DetectionMixup", {{"prob", real(0.5)}, {"mixup_scale", list_of({0.5, 1.5})}}};
  const data::Sample sample = sample_of(noise_image(48, 64), {{1, 2, 50, 31, 3}});
  const support::MemorySource source(
      {sample, sample_of(noise_image(30, 20, 4), {{1, 2, 9, 9, 1}})});
  using List = std::vector<std::pair<std::string, support::Params>>;
  for (const List& list :
       {List{affine, flip, mixup, rescale}, List{affine, rescale}, List{affine, mixup, to_size},
        List{affine, affine, to_size}, List{affine, crop, to_size}, List{affine, crop, rescale},
        List{crop, flip, to_size}, List{affine, rescale, flip, mixup}, List{to_size, flip},
        List{rescale}}) {
    const auto pipeline = make_pipeline(list, true);
    for (std::uint64_t i = 0; i < 12; ++i) {
      const data::Sample expected = support::run(pipeline, sample, {i}, &source);
      cv::Mat batch(3, 64 * 64, CV_8UC3, cv::Scalar::all(77));
      const cv::Mat slot = batch.row(1).reshape(3, 64);
      data::Scratch scratch;
      data::Sample out = sample;
      out.image = sample.image.clone();
      data::Context context({i}, scratch, &source);
      pipeline.apply(out, context, slot);
      INFO(list.size() << " transforms, the last is " << list.back().first << ", key " << i);
      REQUIRE(largest_difference(slot, expected.image) == 0);
      CHECK(out.image.data == slot.data);
      CHECK(out.boxes == expected.boxes);
      // Neighbours in the batch are not touched.
      CHECK(cv::norm(batch.row(0), cv::Mat(1, 4096, CV_8UC3, cv::Scalar::all(77)), cv::NORM_INF) ==
            0);
      CHECK(cv::norm(batch.row(2), cv::Mat(1, 4096, CV_8UC3, cv::Scalar::all(77)), cv::NORM_INF) ==
            0);
    }
  }
}

TEST_CASE("random affine on images that are not square maps boxes exactly", "[transforms]") {
  // Scale 1 and no shift: everything stays where it was.
  const data::Box box{100, 50, 220, 170, 2};
  const auto still = make_pipeline({{"DetectionRandomAffine",
                                     {{"degrees", number(0)},
                                      {"translate", number(0)},
                                      {"scales", list_of({1, 1})},
                                      {"shear", number(0)},
                                      {"target_size", list_of({384, 640})}}}});
  const data::Sample out = support::run(still, sample_of(drawn({640, 384}, box), {box}));
  REQUIRE(out.image.size() == cv::Size(640, 384));
  CHECK(out.boxes == std::vector<data::Box>{box});
  CHECK(found(out.image) == cv::Rect(100, 50, 120, 120));
}

TEST_CASE("boxes follow pixels through every geometric transform", "[transforms]") {
  const data::Box box{100, 50, 220, 170, 2};
  const std::vector<std::pair<std::string, support::Params>> transforms{
      {"DetectionRandomAffine",
       {{"degrees", number(0)},
        {"translate", real(0.1)},
        {"scales", list_of({0.7, 1.3})},
        {"shear", number(0)},
        {"target_size", Tree::null()}}},
      {"DetectionRandomAffine",
       {{"degrees", number(0)},
        {"translate", real(0.1)},
        {"scales", list_of({0.7, 1.3})},
        {"shear", number(0)},
        {"target_size", list_of({300, 500})}}},
      {"DetectionHorizontalFlip", {{"prob", real(1.0)}}},
      {"DetectionVerticalFlip", {{"prob", real(1.0)}}},
      {"DetectionRandomRotate90", {{"prob", real(1.0)}}},
      {"DetectionRescale", {{"output_shape", list_of({200, 300})}}},
      {"DetectionPaddedRescale", {{"input_dim", list_of({320, 320})}}},
      {"DetectionPadToSize", {{"output_size", list_of({700, 650})}, {"pad_value", number(114)}}},
  };
  for (const auto& entry : transforms) {
    INFO(entry.first);
    const auto pipeline = make_pipeline({entry});
    for (std::uint64_t i = 0; i < 8; ++i) {
      const data::Sample out =
          support::run(pipeline, sample_of(drawn({640, 384}, box), {box}), {i});
      REQUIRE(out.boxes.size() == 1);
      const cv::Rect seen = found(out.image);
      CHECK(std::abs(out.boxes[0].x1 - static_cast<float>(seen.x)) <= 1.01F);
      CHECK(std::abs(out.boxes[0].y1 - static_cast<float>(seen.y)) <= 1.01F);
      CHECK(std::abs(out.boxes[0].x2 - static_cast<float>(seen.br().x)) <= 1.01F);
      CHECK(std::abs(out.boxes[0].y2 - static_cast<float>(seen.br().y)) <= 1.01F);
    }
  }
}

TEST_CASE("random affine rotates and shears boxes to their hull and filters them", "[transforms]") {
  const auto turning = make_pipeline({{"DetectionRandomAffine",
                                       {{"degrees", number(30)},
                                        {"shear", number(10)},
                                        {"target_size", list_of({200, 300})},
                                        {"border_value", number(0)}}}});
  const data::Box box{120, 80, 180, 120, 1};
  for (std::uint64_t i = 0; i < 10; ++i) {
    const data::Sample out = support::run(turning, sample_of(drawn({300, 200}, box), {box}), {i});
    REQUIRE(out.boxes.size() == 1);
    const cv::Rect seen = found(out.image);
    CHECK(static_cast<float>(seen.x) >= out.boxes[0].x1 - 1.01F);
    CHECK(static_cast<float>(seen.br().y) <= out.boxes[0].y2 + 1.01F);
    CHECK(static_cast<float>(seen.width) >= out.boxes[0].width() - 4.0F);
  }
  // A box of which less than a tenth remains goes; with the filter off it stays.
  const data::Box edge{0, 0, 100, 100, 1};
  for (const bool filter : {false, true}) {
    const auto shifting = make_pipeline({{"DetectionRandomAffine",
                                          {{"degrees", number(0)},
                                           {"translate", list_of({0.025, 0.025})},
                                           {"scales", list_of({1, 1})},
                                           {"shear", number(0)},
                                           {"target_size", Tree::null()},
                                           {"filter_box_candidates", Tree::of(filter)}}}});
    const data::Sample out = support::run(shifting, sample_of(drawn({200, 200}, edge), {edge}));
    CHECK(out.boxes.size() == (filter ? 0U : 1U));
  }
}

TEST_CASE("detection images end in the reference's channel order", "[transforms]") {
  // The picture is red. The reference decodes BGR; its network sees RGB where RGB2BGR acted.
  const cv::Mat red(4, 4, CV_8UC3, cv::Scalar(200, 20, 10));
  const auto first = [&](const std::vector<std::pair<std::string, support::Params>>& list) {
    return support::run(make_pipeline(list, true), sample_of(red, {})).image.at<cv::Vec3b>(0, 0)[0];
  };
  CHECK(first({}) == 10);  // BGR, as a list without the transform gives it
  CHECK(first({{"DetectionRGB2BGR", {{"prob", real(1.0)}}}}) == 200);
  CHECK(first({{"DetectionRGB2BGR", {{"prob", real(1.0)}}},
               {"DetectionRGB2BGR", {{"prob", real(1.0)}}}}) == 10);
  // Half of the training images are swapped.
  int swapped = 0;
  const auto half = make_pipeline({{"DetectionRGB2BGR", {{"prob", real(0.5)}}}}, true);
  for (std::uint64_t i = 0; i < 400; ++i) {
    swapped += support::run(half, sample_of(red, {}), {i}).image.at<cv::Vec3b>(0, 0)[0] == 10;
  }
  CHECK(swapped > 150);
  CHECK(swapped < 250);
}

TEST_CASE("HSV shifts saturation and value of the colour that is there", "[transforms]") {
  // Only value may change: gray stays gray in either channel order.
  const cv::Mat gray(8, 8, CV_8UC3, cv::Scalar::all(100));
  const auto pipeline = make_pipeline(
      {{"DetectionHSV",
        {{"prob", real(1.0)}, {"hgain", number(0)}, {"sgain", number(0)}, {"vgain", number(60)}}}});
  bool changed = false;
  for (std::uint64_t i = 0; i < 16; ++i) {
    const cv::Vec3b p = support::run(pipeline, sample_of(gray, {}), {i}).image.at<cv::Vec3b>(3, 3);
    CHECK(p[0] == p[1]);
    CHECK(p[1] == p[2]);
    CHECK(std::abs(p[0] - 100) <= 60);
    changed = changed || p[0] != 100;
  }
  CHECK(changed);
}

TEST_CASE("mixup blends half and half and keeps the boxes of both", "[transforms]") {
  const cv::Mat black(60, 80, CV_8UC3, cv::Scalar::all(0));
  const data::Box own{1, 1, 20, 20, 0}, other{10, 20, 50, 50, 7};
  const support::MemorySource source(
      {sample_of(black, {}), sample_of(drawn({80, 60}, other), {other})});
  const auto pipeline = make_pipeline({{"DetectionMixup",
                                        {{"input_dim", Tree::null()},
                                         {"mixup_scale", list_of({1, 1})},
                                         {"prob", real(1.0)},
                                         {"flip_prob", real(0.0)}}}});
  const data::Sample out = support::run(pipeline, sample_of(black, {own}), {4}, &source);
  // Only the sample with objects is laid over.
  REQUIRE(out.boxes == std::vector<data::Box>{own, other});
  CHECK(out.image.at<cv::Vec3b>(30, 30) == cv::Vec3b(127, 0, 0));
  CHECK(out.image.at<cv::Vec3b>(5, 5) == cv::Vec3b(0, 0, 0));

  const auto flipped = make_pipeline({{"DetectionMixup",
                                       {{"input_dim", Tree::null()},
                                        {"mixup_scale", list_of({0.5, 0.5})},
                                        {"prob", real(1.0)},
                                        {"flip_prob", real(1.0)}}}});
  const data::Sample small = support::run(flipped, sample_of(black, {}), {4}, &source);
  REQUIRE(small.boxes.size() == 1);
  CHECK(small.boxes[0] == data::Box{15, 10, 35, 25, 7});
  CHECK(small.image.at<cv::Vec3b>(17, 25) == cv::Vec3b(127, 0, 0));
}

TEST_CASE("mosaic joins four samples at the centre", "[transforms]") {
  const cv::Scalar colors[4] = {{250, 0, 0}, {0, 250, 0}, {0, 0, 250}, {250, 250, 0}};
  std::vector<data::Sample> samples;
  for (const cv::Scalar& color : colors) {
    samples.push_back(sample_of(cv::Mat(50, 50, CV_8UC3, color), {{0, 0, 50, 50, 1}}));
  }
  const support::MemorySource source(samples);
  const auto pipeline = make_pipeline(
      {{"DetectionMosaic", {{"input_dim", list_of({100, 100})}, {"prob", real(1.0)}}}});
  for (std::uint64_t i = 0; i < 10; ++i) {
    const data::Sample out = support::run(pipeline, samples[0], {i}, &source);
    REQUIRE(out.image.size() == cv::Size(200, 200));
    REQUIRE(out.boxes.size() == 4);
    // All boxes touch the centre, and each is filled by one colour.
    const data::Box& first = out.boxes[0];
    for (const data::Box& box : out.boxes) {
      CHECK((box.x1 == first.x2 || box.x2 == first.x2));
      const cv::Vec3b middle = out.image.at<cv::Vec3b>(static_cast<int>((box.y1 + box.y2) / 2),
                                                       static_cast<int>((box.x1 + box.x2) / 2));
      CHECK(middle != cv::Vec3b(114, 114, 114));
    }
  }
}

TEST_CASE("closing ends mosaic and mixup", "[transforms]") {
  auto pipeline =
      make_pipeline({{"DetectionMosaic", {{"input_dim", list_of({100, 100})}, {"prob", real(1.0)}}},
                     {"DetectionMixup", {{"mixup_scale", list_of({1, 1})}, {"prob", real(1.0)}}}});
  pipeline.close_mosaic();
  const data::Sample sample = sample_of(noise_image(20, 30), {});
  CHECK(largest_difference(support::run(pipeline, sample).image, sample.image) == 0);
}

TEST_CASE("small boxes are dropped by the targets' format", "[transforms]") {
  const auto pipeline =
      make_pipeline({{"DetectionTargetsFormatTransform", {{"min_bbox_edge_size", number(2)}}}});
  const data::Sample out = support::run(
      pipeline,
      sample_of(noise_image(50, 50), {{0, 0, 2, 30, 1}, {0, 0, 2.5F, 3, 2}, {0, 0, 30, 1, 3}}));
  REQUIRE(out.boxes.size() == 1);
  CHECK(out.boxes[0].label == 2);
}

TEST_CASE("a list in an impossible order or with mistakes is refused", "[transforms]") {
  CHECK_THROWS_WITH(make_pipeline({{"ToTensor", {}}, {"ColorJitter", {{"brightness", real(0.4)}}}}),
                    Catch::Contains("'ColorJitter' stands behind 'ToTensor'"));
  CHECK_NOTHROW(make_pipeline({{"ToTensor", {}}, {"RandomHorizontalFlip", {}}}));
  CHECK_THROWS_WITH(make_pipeline({{"DetectionHorizontalFlipp", {{"prob", real(1.0)}}}}),
                    Catch::Contains("DetectionHorizontalFlip"));
  CHECK_THROWS_WITH(make_pipeline({{"DetectionHorizontalFlip", {{"prob", real(1.5)}}}}),
                    Catch::Contains("[0, 1]"));
  CHECK_THROWS_WITH(make_pipeline({{"DetectionHSV", {{"prob", real(0.5)}, {"hgian", number(3)}}}}),
                    Catch::Contains("hgain"));
  CHECK_THROWS_WITH(make_pipeline({{"Resize", {{"size", list_of({1, 2, 3})}}}}),
                    Catch::Contains("[height, width]"));
  CHECK_THROWS_WITH(make_pipeline({{"RandAugmentTransform",
                                    {{"config_str", Tree::of("rand-q7")},
                                     {"crop_size", number(224)},
                                     {"img_mean", list_of({0.5, 0.5, 0.5})}}}}),
                    Catch::Contains("q7"));
}

TEST_CASE("every transform of the recipes is registered and documented", "[transforms]") {
  for (const auto& entry : data::Transform::registry().entries()) {
    INFO(entry.names.front());
    CHECK_NOTHROW(data::Transform::Registry::describe(entry));
  }
  for (const char* name : {"RandomCrop",
                           "RandomHorizontalFlip",
                           "RandomResizedCropAndInterpolation",
                           "Resize",
                           "CenterCrop",
                           "RandAugmentTransform",
                           "RandomErase",
                           "Lighting",
                           "Standardize",
                           "Normalize",
                           "ToTensor",
                           "ColorJitter",
                           "RandomRotation",
                           "DetectionRandomAffine",
                           "DetectionRGB2BGR",
                           "DetectionHSV",
                           "DetectionHorizontalFlip",
                           "DetectionVerticalFlip",
                           "DetectionRandomRotate90",
                           "DetectionMixup",
                           "DetectionMosaic",
                           "DetectionPaddedRescale",
                           "DetectionRescale",
                           "DetectionLongestMaxSize",
                           "DetectionPadIfNeeded",
                           "DetectionPadToSize",
                           "DetectionStandardize",
                           "DetectionNormalize",
                           "DetectionImagePermute",
                           "DetectionTargetsFormatTransform"}) {
    CHECK(data::Transform::registry().find(name) != nullptr);
  }
}
