// Looking at every picture (cases B1, B4), and real data.
#include "data/check.h"

#include <catch2/catch.hpp>
#include <set>

#include "image/image.h"
#include "support/datasets.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::data {
namespace {

using Catch::Contains;
using support::open_dataset;

TEST_CASE("missing, damaged, rotated and wrongly annotated pictures are counted") {
  const support::TempDir dir;
  const auto jpeg = image::encode_jpeg(support::gradient_image(100, 60), 90);
  const auto put = [&](const std::string& name, const support::FileBytes& bytes) {
    support::write_bytes(dir.path() / "images" / name, bytes);
  };
  put("good.jpg", jpeg);
  put("half.jpg", {jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2)});
  put("text.jpg", {'h', 'e', 'l', 'l', 'o'});
  put("turned.jpg", support::with_exif(jpeg, 8));
  std::string images, annotations;
  int id = 0;
  for (const std::string name : {"good.jpg", "half.jpg", "text.jpg", "turned.jpg", "none.jpg"}) {
    const std::string comma = id > 0 ? "," : "";
    images += comma + R"({"id": )" + std::to_string(id) + R"(, "file_name": ")" + name +
              R"(", "width": 100, "height": 60})";
    annotations += comma + R"({"image_id": )" + std::to_string(id) +
                   R"(, "category_id": 1, "bbox": [1, 1, 50, 50]})";
    ++id;
  }
  support::write_text(dir.path() / "l.json", R"({"images": [)" + images + R"(], "annotations": [)" +
                                                 annotations +
                                                 R"(], "categories": [{"id": 1, "name": "x"}]})");
  const auto set = open_dataset(
      "COCOFormatDetectionDataset",
      "{data_dir: " + dir.path().native() + ", json_annotation_file: l.json, images_dir: images}");
  const Report headers = check_images(*set, CheckDepth::kHeaders);
  CHECK(headers.images == 5);
  CHECK(headers.count(Finding::kBadImage) == 2);
  CHECK(headers.count(Finding::kSizeMismatch) == 1);
  CHECK_THAT(headers.text(), Contains("text.jpg") && Contains("none.jpg") &&
                                 Contains("turned.jpg") &&
                                 Contains("1 annotated sizes are those before the EXIF rotation"));
  const Report decoded = check_images(*set, CheckDepth::kDecode);
  CHECK(decoded.count(Finding::kBadImage) == 3);
  CHECK_THAT(decoded.text(), Contains("half.jpg"));
  CHECK_THROWS_WITH(set->load(2), Contains("text.jpg"));
  CHECK_THAT(set->load(1).warning, Contains("half.jpg"));
}

std::filesystem::path shared(const char* name) {
  return std::filesystem::path(SGTRAIN_SHARED_DIR) / "data" / name;
}

TEST_CASE("BCCD: 364 microscope images, two degenerate boxes", "[data]") {
  const auto root = shared("bccd");
  if (!std::filesystem::exists(root)) {
    WARN("skipped: " << root << " is not there");
    return;
  }
  const std::string yaml =
      "{data_dir: " + root.native() +
      ", images_dir: JPEGImages, labels_dir: Annotations, all_classes_list: [RBC, WBC, "
      "Platelets], input_dim: [320, 320]";
  const auto all = open_dataset("PascalVOCFormatDetectionDataset", yaml + "}");
  const Report& report = all->report();
  CHECK(report.images == 364);
  CHECK(report.kept == 364);
  CHECK(report.boxes == 4886);
  CHECK(report.count(Finding::kInverted) + report.count(Finding::kZeroSize) == 2);
  std::int64_t parts = 0;
  for (const std::string split : {"train", "val", "test"}) {
    parts += open_dataset("PascalVOCFormatDetectionDataset",
                          yaml + ", list_file: ImageSets/Main/" + split + ".txt}")
                 ->size();
  }
  CHECK(parts == 364);
  const Sample sample = all->load(0);
  CHECK(sample.image.size() == cv::Size(320, 240));
  CHECK(sample.original_size == cv::Size(640, 480));
  CHECK(check_images(*all, CheckDepth::kDecode).count(Finding::kBadImage) == 0);
}

TEST_CASE("COCO photos of 80 classes with gaps in their ids", "[data]") {
  const auto root = shared("coco_mini");
  if (!std::filesystem::exists(root)) {
    WARN("skipped: " << root << " is not there");
    return;
  }
  struct Split {
    std::string name;
    int images, boxes;
  };
  for (const Split& split : {Split{"train", 11, 67}, Split{"val", 2, 26}}) {
    CAPTURE(split.name);
    const auto set = open_dataset("COCODetectionDataset",
                                  "{data_dir: " + root.native() + ", json_file: " + split.name +
                                      ".json, subdir: images/" + split.name +
                                      ", ignore_empty_annotations: False, input_dim: 640}");
    CHECK(set->size() == split.images);
    CHECK(set->report().boxes == split.boxes);
    CHECK(set->class_names().size() == 80);
    CHECK(set->class_names().at(0) == "person");
    CHECK(set->class_names().at(79) == "toothbrush");
    CHECK(check_images(*set, CheckDepth::kDecode).counts.empty());
    for (std::int64_t i = 0; i < set->size(); ++i) {
      const Sample sample = set->load(i);
      CHECK(std::max(sample.image.cols, sample.image.rows) == 640);
      CHECK(sample.warning.empty());
      for (const Box& box : sample.boxes) {
        CHECK(box.x2 <= static_cast<float>(sample.image.cols) + 1);
        CHECK(box.width() > 0);
      }
    }
  }
}

}  // namespace
}  // namespace sgtrain::data
