// COCO annotations (cases A7 to A10, A13 to A15, B1).
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "image/image.h"
#include "support/composites.h"
#include "support/datasets.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::data {
namespace {

using Catch::Contains;
using support::open_dataset;
using support::open_error;

/// A folder with images a.png … (100 x 80) and one annotation file.
class Folder {
 public:
  explicit Folder(int images = 3) {
    for (int i = 0; i < images; ++i) {
      image::write_file(path() / "images" / name(i), support::gradient_image(100, 80));
    }
  }
  std::filesystem::path path() const { return dir_.path(); }
  static std::string name(int i) { return std::string(1, static_cast<char>('a' + i)) + ".png"; }

  void write(const std::string& json, const std::string& file = "labels.json") const {
    support::write_text(path() / file, json);
  }
  /// The usual frame; `annotations` and `categories` are the lists' insides.
  void write_lists(const std::string& annotations,
                   const std::string& categories = R"({"id": 1, "name": "cat"})") const {
    write(R"({"info": {"x": [1, "]"]}, "images": [
      {"id": 5, "file_name": "a.png", "width": 100, "height": 80},
      {"id": 3, "file_name": "b.png", "width": 100, "height": 80},
      {"id": 9, "file_name": "c.png", "width": 100, "height": 80}],
     "annotations": [)" +
          annotations + "],\n\"categories\": [" + categories + "]}");
  }
  std::string yaml(const std::string& more = "") const {
    return "{data_dir: " + path().native() +
           ", json_annotation_file: labels.json, images_dir: images" +
           (more.empty() ? "" : ", " + more) + "}";
  }
  std::unique_ptr<Dataset> open(const std::string& more = "") const {
    return open_dataset("COCOFormatDetectionDataset", yaml(more));
  }
  std::string error(const std::string& more = "") const {
    return open_error("COCOFormatDetectionDataset", yaml(more));
  }

 private:
  support::TempDir dir_;
};

std::string box(int image, int category, const std::string& xywh, const std::string& more = "") {
  return fmt::format(R"({{"image_id": {}, "category_id": {}, "bbox": [{}]{}}})", image, category,
                     xywh, more);
}

std::vector<Box> boxes_of(const Dataset& set, std::int64_t index) {
  const auto span = set.annotation(index).boxes;
  return {span.begin(), span.end()};
}

TEST_CASE("boxes become corners, in the order of images and annotations") {
  const Folder folder;
  folder.write_lists(box(9, 1, "1, 2, 3, 4") + "," + box(5, 1, "10.5, 20, 30, 40.25") + "," +
                     box(9, 1, "50, 50, 10, 10", R"(, "iscrowd": 1, "id": 7)"));
  const auto set = folder.open("ignore_empty_annotations: False");
  REQUIRE(set->size() == 3);
  CHECK(boxes_of(*set, 0) == std::vector<Box>{{10.5F, 20, 40.5F, 60.25F, 0, false}});
  CHECK(boxes_of(*set, 1).empty());
  CHECK(boxes_of(*set, 2) == std::vector<Box>{{1, 2, 4, 6, 0, false}, {50, 50, 60, 60, 0, true}});
  CHECK(set->annotation(2).image_id == 9);
  CHECK(set->class_names() == std::vector<std::string>{"cat"});
  const Report& report = set->report();
  CHECK(report.images == 3);
  CHECK(report.with_boxes == 2);
  CHECK(report.empty == 1);
  CHECK(report.boxes == 3);
  CHECK(report.crowd == 1);
}

TEST_CASE("empty images are left out by default, crowd regions with with_crowd off") {
  const Folder folder;
  folder.write_lists(box(9, 1, "1, 2, 3, 4", R"(, "iscrowd": 1)") + "," + box(5, 1, "1, 1, 5, 5"));
  CHECK(folder.open()->size() == 2);
  const auto set = folder.open("with_crowd: False");
  REQUIRE(set->size() == 1);
  CHECK(set->annotation(0).image_id == 5);
  CHECK(set->report().count(Finding::kCrowd) == 1);
  CHECK(set->report().emptied == 1);
}

TEST_CASE("A7: boxes without area or inside out are dropped and counted, the image stays") {
  const Folder folder;
  folder.write_lists(box(5, 1, "10, 10, 0, 5") + "," + box(5, 1, "10, 10, -4, 5") + "," +
                     box(5, 1, "10, 10, 1e-9, 5") + "," + box(5, 1, "10, 10, 5, 5") + "," +
                     box(3, 1, "200, 10, 5, 5") + "," + box(9, 1, "90, 70, 50, 50"));
  const auto set = folder.open("ignore_empty_annotations: False");
  CHECK(boxes_of(*set, 0) == std::vector<Box>{{10, 10, 15, 15, 0, false}});
  CHECK(boxes_of(*set, 1).empty());
  CHECK(boxes_of(*set, 2) == std::vector<Box>{{90, 70, 100, 80, 0, false}});
  const Report& report = set->report();
  CHECK(report.count(Finding::kInverted) == 1);
  CHECK(report.count(Finding::kZeroSize) == 2);
  CHECK(report.count(Finding::kOutside) == 1);
  CHECK(report.count(Finding::kClipped) == 1);
  CHECK_THAT(report.first(Finding::kInverted).at(0),
             Contains("labels.json") && Contains("annotations[1]") && Contains("[10, 10, 6, 15]"));
  CHECK_THAT(report.text(), Contains("1 boxes inverted: dropped"));
}

TEST_CASE("boxes that leave the image by a rounding error are clipped without a word") {
  const Folder folder;
  folder.write_lists(box(5, 1, "60, 50, 40.6, 30.4"));
  const auto set = folder.open();
  CHECK(boxes_of(*set, 0) == std::vector<Box>{{60, 50, 100, 80, 0, false}});
  CHECK(set->report().count(Finding::kClipped) == 0);
}

TEST_CASE("A11: many boxes outside look like another coordinate format") {
  const Folder folder;
  std::string xyxy;
  for (int i = 0; i < 10; ++i)
    xyxy += (i > 0 ? "," : "") + box(5, 1, fmt::format("{}, 40, {}, 79", 50 + i, 90 + i));
  folder.write_lists(xyxy);
  CHECK_THAT(folder.open()->report().text(), Contains("10 of 10 boxes leave their image"));
}

TEST_CASE("A8: a category id that is not listed") {
  const Folder folder;
  folder.write_lists(box(5, 1, "1, 1, 5, 5") + "," + box(5, 2, "1, 1, 5, 5"));
  CHECK_THAT(folder.error(), Contains("annotations[1]: category_id 2") && Contains("1: cat"));
}

TEST_CASE("A9: categories by id, not by position; other ids for the same names are an error") {
  const Folder folder;
  const std::string annotations = box(5, 7, "1, 1, 5, 5") + "," + box(5, 1, "2, 2, 5, 5");
  folder.write_lists(
      annotations,
      R"({"id": 7, "name": "cow"}, {"id": 1, "name": "cat"}, {"id": 3, "name": "dog"})");
  const auto shuffled = folder.open();
  CHECK(shuffled->class_names() == std::vector<std::string>{"cat", "dog", "cow"});
  CHECK(boxes_of(*shuffled, 0).at(0).label == 2);
  CHECK(boxes_of(*shuffled, 0).at(1).label == 0);

  const Folder other;
  other.write_lists(
      annotations,
      R"({"id": 1, "name": "cow"}, {"id": 3, "name": "cat"}, {"id": 7, "name": "dog"})");
  const auto valid = other.open();
  CHECK_NOTHROW(check_same_classes(*shuffled, *shuffled));
  CHECK_THROWS_WITH(check_same_classes(*shuffled, *valid),
                    Contains("[cat, dog, cow]") && Contains("[cow, cat, dog]"));
  // A list in the recipe maps both by name.
  const auto mapped = other.open("all_classes_list: [cat, dog, cow]");
  CHECK_NOTHROW(check_same_classes(*shuffled, *mapped));
  CHECK(boxes_of(*mapped, 0).at(0).label == 1);  // id 7 is "dog" there
  CHECK(boxes_of(*mapped, 0).at(1).label == 2);
}

TEST_CASE("A10: class lists that do not fit the file") {
  const Folder folder;
  folder.write_lists(box(5, 1, "1, 1, 5, 5"),
                     R"({"id": 1, "name": "pedestrian"}, {"id": 2, "name": "car"})");
  CHECK_THAT(folder.error("all_classes_list: [pedestrain, car]"),
             Contains("'pedestrian' is not listed") && Contains("did you mean 'pedestrain'") &&
                 Contains("[pedestrian, car]") && Contains("[pedestrain, car]"));
  CHECK_THAT(folder.error("all_classes_list: [car]"), Contains("class_inclusion_list"));
  CHECK_THAT(folder.error("all_classes_list: [car, car, pedestrian]"), Contains("'car' twice"));
  CHECK_THAT(folder.error("class_inclusion_list: [cra]"),
             Contains("'cra'") && Contains("did you mean 'car'"));
  const auto more = folder.open("all_classes_list: [bus, car, pedestrian]");
  CHECK(boxes_of(*more, 0).at(0).label == 2);
  CHECK_THAT(more->report().text(), Contains("[bus]"));
  CHECK_THROWS_WITH(check_class_names({"car", "pedestrian"}, *folder.open(), "r.yaml:1"),
                    Contains("in their order"));
  CHECK_THROWS_WITH(check_class_names({"pedestrian", "cars"}, *folder.open(), "r.yaml:1"),
                    Contains("'cars' is not in the data set, did you mean 'car'"));
}

TEST_CASE("A13: what hand-made files lack") {
  const Folder folder;
  folder.write(
      R"({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png", "width": null}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [90, 10, 30, 20]},
                    {"image_id": "2", "category_id": 1.0, "bbox": [500, 10, 30, 20], "iscrowd": false}],
    "categories": [{"id": 1, "name": "cat"}]})");
  const auto set = folder.open();
  REQUIRE(set->size() == 2);
  CHECK(set->annotation(0).size.empty());
  // The picture's size is learnt at loading: boxes are clipped then.
  CHECK(set->load(0).boxes == std::vector<Box>{{90, 10, 100, 30, 0, false}});
  CHECK(set->load(1).boxes.empty());
  CHECK(set->load(0).warning.empty());
}

TEST_CASE("A14: ignoring a category equals removing it by hand") {
  const std::string categories =
      R"({"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}, {"id": 3, "name": "cow"})";
  const std::vector<std::string> all = {
      box(5, 1, "1, 1, 5, 5"), box(5, 2, "2, 2, 5, 5"),
      box(3, 2, "3, 3, 5, 5"), box(3, 3, "4, 4, 5, 5", R"(, "iscrowd": 1)"),
      box(9, 2, "5, 5, 5, 5"), box(5, 3, "6, 6, 5, 5")};
  const Folder folder, by_hand;
  folder.write_lists(
      all[0] + "," + all[1] + "," + all[2] + "," + all[3] + "," + all[4] + "," + all[5],
      categories);
  by_hand.write_lists(all[0] + "," + all[3] + "," + all[5],
                      R"({"id": 1, "name": "cat"}, {"id": 3, "name": "cow"})");
  for (const std::string flag : {"True", "False"}) {
    const auto a = folder.open("class_ids_to_ignore: [2], ignore_empty_annotations: " + flag);
    const auto b = by_hand.open("ignore_empty_annotations: " + flag);
    REQUIRE(a->size() == b->size());
    CHECK(a->class_names() == b->class_names());
    for (std::int64_t i = 0; i < a->size(); ++i) {
      CHECK(boxes_of(*a, i) == boxes_of(*b, i));
      CHECK(a->annotation(i).image_id == b->annotation(i).image_id);
    }
  }
  CHECK_THAT(folder.error("class_ids_to_ignore: [4]"), Contains("category id 4"));
}

TEST_CASE("A15: training on some classes; the other images are background on request") {
  const std::string categories =
      R"({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}, {"id": 4, "name": "d"},
         {"id": 5, "name": "e"}, {"id": 6, "name": "f"}, {"id": 7, "name": "g"})";
  const Folder folder;
  folder.write_lists(box(5, 6, "1, 1, 5, 5") + "," + box(5, 1, "1, 1, 5, 5") + "," +
                         box(3, 3, "2, 2, 6, 6") + "," + box(9, 7, "3, 3, 7, 7"),
                     categories);
  const auto dropped = folder.open("class_inclusion_list: [f, c]");
  CHECK(dropped->size() == 2);
  CHECK(dropped->class_names() == std::vector<std::string>{"f", "c"});
  CHECK(boxes_of(*dropped, 0) == std::vector<Box>{{1, 1, 6, 6, 0, false}});
  CHECK(boxes_of(*dropped, 1).at(0).label == 1);
  const auto kept = folder.open("class_inclusion_list: [f, c], ignore_empty_annotations: False");
  CHECK(kept->size() == 3);
  CHECK(kept->report().count(Finding::kIgnoredClass) == 2);
  CHECK_THAT(kept->report().text(), Contains("1 images lost all their boxes"));
}

TEST_CASE("a picture of crowd regions alone is empty only where crowds are left out") {
  const Folder folder;  // one with a box, one with a crowd, one with nothing
  folder.write_lists(box(5, 1, "1, 1, 5, 5") + "," + box(3, 1, "2, 2, 6, 6", R"(, "iscrowd": 1)"));
  CHECK(folder.open()->size() == 2);  // as the reference, whose targets are those and the crowds
  CHECK(folder.open("with_crowd: False")->size() == 1);
  CHECK(folder.open("ignore_empty_annotations: False")->size() == 3);
}

TEST_CASE("all kinds of mistakes of an annotation file are one error") {
  const Folder folder;
  folder.write(R"({"images": [{"id": 5, "file_name": "a.png"}, {"id": 5, "file_name": "b.png"}],
     "annotations": [)" +
               box(5, 7, "1, 1, 5, 5") + R"(], "categories": [{"id": 1, "name": "cat"}]})");
  const std::string error = folder.error("all_classes_list: [dog]");
  CHECK_THAT(error, Contains("3 kinds of mistakes"));
  CHECK_THAT(error, Contains("category_id 7"));
  CHECK_THAT(error, Contains("two images have the id 5"));
  CHECK_THAT(error, Contains("'cat' is not listed"));
}

TEST_CASE("the counts add up and max_num_samples takes the first images") {
  const Folder folder;
  folder.write_lists(box(5, 1, "1, 1, 5, 5") + "," + box(9, 1, "1, 1, 5, 5"));
  const auto set = folder.open("max_num_samples: 2, ignore_empty_annotations: False");
  CHECK(set->size() == 2);
  CHECK(set->annotation(1).image_id == 3);
  CHECK(set->report().boxes == 1);
  CHECK(folder.open("max_num_samples: 2")->size() == 1);
  CHECK_THAT(folder.error("max_num_samples: 0"), Contains("at least 1"));
}

TEST_CASE("annotation files that are damaged: file, line and reason") {
  const Folder folder;
  const auto error = [&](const std::string& json) {
    folder.write(json);
    return folder.error();
  };
  const std::string good =
      R"({"images": [{"id": 1, "file_name": "a.png"}],
"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}],
"categories": [{"id": 1, "name": "x"}]})";
  CHECK(error(good) == "opened");
  CHECK_THAT(error(good.substr(0, 80)), Contains("labels.json:2") && Contains("ends"));
  CHECK_THAT(error(good + "\n{}"), Contains("labels.json:4") && Contains("text behind the end"));
  CHECK_THAT(error("[1, 2]"), Contains("labels.json:1") && Contains("one JSON object"));
  CHECK_THAT(error(""), Contains("ends too early"));
  CHECK_THAT(error(R"({"images": [{"id": 1}], "annotations": []})"),
             Contains("no list 'categories'"));
  CHECK_THAT(error(R"({"images": {"id": 1}})"), Contains("'images' must be a list"));
  CHECK_THAT(error(R"({"images": [{"file_name": "a.png"}], "annotations": [], "categories": []})"),
             Contains("images[0]") && Contains("'id' is missing"));
  CHECK_THAT(error(R"({"images": [{"id": 1, "width": -3}], "annotations": [], "categories": []})"),
             Contains("images[0]"));
  CHECK_THAT(error(R"({"images": [{"id": 1}, {"id": 1}], "annotations": [], "categories": []})"),
             Contains("two images have the id 1"));
  CHECK_THAT(error(R"({"images": [{"id": 1}], "annotations": [],
    "categories": [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}]})"),
             Contains("two categories have the id 1"));
  CHECK_THAT(error(R"({"images": [{"id": 1, "file_name": "a.png"}], "annotations": [],
    "categories": [{"id": 1}]})"),
             Contains("categories[0]") && Contains("'name'"));
}

TEST_CASE("single annotations that cannot be read are dropped and shown with their line") {
  const Folder folder;
  folder.write_lists("\n" + box(5, 1, "1, 2, 3, 4") + ",\n" + box(5, 1, "1, 2, 3") + ",\n" +
                     R"({"image_id": 5, "category_id": 1, "segmentation": [[1, 2, 3, 4]]},
{"image_id": 5, "bbox": [1, 2, 3, 4]},
{"image_id": 77, "category_id": 1, "bbox": [1, 2, 3, 4]},
{"image_id": 5, "category_id": 1, "bbox": [1, 2, "x", 4]})");
  const auto set = folder.open();
  CHECK(boxes_of(*set, 0).size() == 1);
  CHECK(set->report().count(Finding::kBadRow) == 5);
  const auto& first = set->report().first(Finding::kBadRow);
  REQUIRE(first.size() == 3);
  CHECK_THAT(first[0], Contains("labels.json:7") && Contains("annotations[1]"));
  CHECK_THAT(first[1], Contains("labels.json:8") && Contains("'bbox' is missing"));
}

TEST_CASE("brackets, quotes and escapes in texts; any order of the lists; a byte order mark") {
  const Folder folder;
  image::write_file(folder.path() / "images/we \"ird\\]}.png", support::gradient_image(20, 20));
  folder.write(
      "\xEF\xBB\xBF"
      R"({"licenses": [{"name": "a ] } \" \\"}], "annotations":
    [ {"bbox": [1,2,3,4], "image_id": 1, "category_id": 4, "note": "}]\\"} ],
    "categories": [{"name": "caf\u00e9 \"x\"", "id": 4, "skeleton": [[1, 2]]}], "flag": true, "n": -1.5e3,
    "images": [ {"file_name": "we \"ird\\]}.png", "id": 1, "height": 20, "width": 20} ] } )");
  const auto set = folder.open();
  REQUIRE(set->size() == 1);
  CHECK(set->class_names().at(0) == "caf\xC3\xA9 \"x\"");
  CHECK(set->load(0).name == "we \"ird\\]}.png");
  CHECK(boxes_of(*set, 0) == std::vector<Box>{{1, 2, 4, 6, 0, false}});
}

TEST_CASE("a wrong image folder is found before the first step") {
  const Folder folder;
  folder.write_lists(box(5, 1, "1, 1, 5, 5"));
  std::filesystem::create_directories(folder.path() / "other");
  CHECK_THAT(open_error("COCOFormatDetectionDataset",
                        "{data_dir: " + folder.path().native() +
                            ", json_annotation_file: labels.json, images_dir: other}"),
             Contains("other/a.png"));
  CHECK_THAT(open_error("COCOFormatDetectionDataset",
                        "{data_dir: " + folder.path().native() +
                            ", json_annotation_file: none.json, images_dir: images}"),
             Contains("none.json"));
}

TEST_CASE("loading fits the image into input_dim, boxes with it") {
  const Folder folder;
  folder.write_lists(box(5, 1, "10, 20, 30, 40"));
  const auto set = folder.open("input_dim: [64, 64]");
  const Sample sample = set->load(0);
  CHECK(sample.image.size() == cv::Size(64, 51));  // ratio 0.64; int(80 * 0.64) = 51
  CHECK(sample.original_size == cv::Size(100, 80));
  REQUIRE(sample.boxes.size() == 1);
  CHECK(sample.boxes[0].x1 == Approx(6.4));
  CHECK(sample.boxes[0].y2 == Approx(38.4));
  CHECK(folder.open("input_dim: 200")->load(0).image.size() == cv::Size(200, 160));
  CHECK(folder.open("input_dim: [40, 300]")->load(0).image.size() == cv::Size(50, 40));
}

TEST_CASE("reduced decoding leaves sizes and boxes as they are") {
  const support::TempDir dir;
  image::write_file(dir.path() / "images/a.jpg", support::gradient_image(640, 480));
  support::write_text(dir.path() / "l.json",
                      R"({"images": [{"id": 1, "file_name": "a.jpg", "width": 640, "height": 480}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [64, 48, 320, 240]}], "categories": [{"id": 1, "name": "x"}]})");
  const std::string yaml =
      "{data_dir: " + dir.path().native() +
      ", json_annotation_file: l.json, images_dir: images, input_dim: 160, reduced_decode: ";
  const Sample full = open_dataset("COCOFormatDetectionDataset", yaml + "False}")->load(0);
  const Sample reduced = open_dataset("COCOFormatDetectionDataset", yaml + "True}")->load(0);
  CHECK(full.image.size() == reduced.image.size());
  CHECK(full.boxes == reduced.boxes);
  CHECK(reduced.original_size == cv::Size(640, 480));
  CHECK(support::mean_difference(full.image, reduced.image) < 2.0);
}

TEST_CASE("B1: labels of a rotated photo are upright; the annotated size tells when they are not") {
  const support::TempDir dir;
  const auto jpeg = support::with_exif(image::encode_jpeg(support::gradient_image(100, 60)), 6);
  support::write_bytes(dir.path() / "images/a.jpg", jpeg);
  const auto open = [&](int width, int height, const std::string& more) {
    support::write_text(
        dir.path() / "l.json",
        fmt::format(R"({{"images": [{{"id": 1, "file_name": "a.jpg", "width": {}, "height": {}}}],
      "annotations": [{{"image_id": 1, "category_id": 1, "bbox": [10, 20, 30, 40]}}], "categories": [{{"id": 1, "name": "x"}}]}})",
                    width, height));
    return open_dataset("COCOFormatDetectionDataset",
                        "{data_dir: " + dir.path().native() +
                            ", json_annotation_file: l.json, images_dir: images" + more + "}");
  };
  const auto upright = open(60, 100, "");
  CHECK(upright->load(0).image.size() == cv::Size(60, 100));
  CHECK(upright->load(0).warning.empty());
  CHECK_THAT(open(100, 60, "")->load(0).warning,
             Contains("a.jpg") && Contains("honor_exif: False"));
  const auto stored = open(100, 60, ", honor_exif: False");
  CHECK(stored->load(0).image.size() == cv::Size(100, 60));
  CHECK(stored->load(0).warning.empty());
}

TEST_CASE("COCO's own layout and keys, composites with exact boxes") {
  const support::TempDir dir;
  const auto composites = support::make_composites({.images = 6, .empty_share = 0.3});
  support::write_coco(dir.path(), "train2017", composites, 10);
  const auto set = open_dataset(
      "COCODetectionDataset",
      "{data_dir: " + dir.path().native() +
          ", cache_annotations: True, class_inclusion_list: null, max_num_samples: null,"
          " with_crowd: False, ignore_empty_annotations: False, verbose: 0}");
  REQUIRE(set->size() == 6);
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const auto boxes = boxes_of(*set, static_cast<std::int64_t>(i));
    REQUIRE(boxes.size() == composites[i].items.size());
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      const auto& item = composites[i].items[k];
      CHECK(boxes[k].label == item.label);
      CHECK(cv::Rect2f(boxes[k].x1, boxes[k].y1, boxes[k].width(), boxes[k].height()) ==
            cv::Rect2f(item.box));
      // The mask agrees: nothing of the item lies outside of its box.
      CHECK(cv::countNonZero(composites[i].mask(item.box) == item.label + 1) > 0);
    }
    CHECK(support::mean_difference(set->load(static_cast<std::int64_t>(i)).image,
                                   composites[i].image) < 3.0);
  }
  CHECK_THAT(
      open_error("COCODetectionDataset", "{data_dir: " + dir.path().native() + ", jsonfile: x}"),
      Contains("jsonfile") && Contains("json_file"));
}

}  // namespace
}  // namespace sgtrain::data
