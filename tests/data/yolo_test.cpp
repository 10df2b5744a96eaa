// YOLO folders and rows (cases A1 to A8, A16 to A20, A23, A25).
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <cmath>

#include "core/error.h"
#include "data/formats/yolo_rows.h"
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

constexpr const char* kName = "YoloDarknetFormatDetectionDataset";

class Folder {
 public:
  std::filesystem::path path() const { return dir_.path(); }
  void image(const std::string& name) const {
    image::write_file(path() / "images" / name, support::gradient_image(100, 50));
  }
  void label(const std::string& name, const std::string& text) const {
    support::write_text(path() / "labels" / name, text);
  }
  void pair(const std::string& stem, const std::string& text) const {
    image(stem + ".png");
    label(stem + ".txt", text);
  }
  std::string yaml(const std::string& more = "") const {
    const bool own_classes = more.starts_with("classes");
    return "{data_dir: " + path().native() + ", images_dir: images, labels_dir: labels" +
           (own_classes ? "" : ", classes: [a, b, c]") + (more.empty() ? "" : ", " + more) + "}";
  }
  std::unique_ptr<Dataset> open(const std::string& more = "") const {
    return open_dataset(kName, yaml(more));
  }
  std::string error(const std::string& more = "") const { return open_error(kName, yaml(more)); }

 private:
  support::TempDir dir_;
};

TEST_CASE("all kinds of mistakes of label files are one error") {
  const Folder folder;
  folder.pair("a", "3 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2\ncat 0.5 0.5 0.2 0.2\n");
  const std::string error = folder.error();
  CHECK_THAT(error, Contains("2 kinds of mistakes"));
  CHECK_THAT(error, Contains("a.txt:1: class 3"));
  CHECK_THAT(error, Contains("a.txt:2: 4 values"));
  CHECK_THAT(error, Contains("a.txt:3: class must be an integer"));
}

TEST_CASE("rows of label files") {
  YoloRow row;
  SECTION("the plain form") {
    REQUIRE(parse_yolo_row("2 0.5 0.25 0.2 0.1", row) == RowKind::kBox);
    CHECK(row.label == 2);
    CHECK(row.box.x1 == Approx(0.4));
    CHECK(row.box.y2 == Approx(0.3));
  }
  SECTION("A23: floats as class, tabs, blanks, line ends") {
    for (const char* text : {"0.0 0.5 0.5 0.2 0.2", "0. 0.5 0.5 0.2 0.2", " 0\t0.5  0.5 0.2 0.2 \r",
                             "+0 5e-1 .5 0.2 0.2"}) {
      CAPTURE(text);
      REQUIRE(parse_yolo_row(text, row) == RowKind::kBox);
      CHECK(row.label == 0);
      CHECK(row.box.x1 == Approx(0.4));
    }
    for (const char* text : {"", "  ", "\r", "\t \r"})
      CHECK(parse_yolo_row(text, row) == RowKind::kBlank);
  }
  SECTION("A3: commas") {
    for (const char* text :
         {"0,0.5,0.5,0.2,0.2", "0, 0.5, 0.5, 0.2, 0.2", "0 , 0.5 ,0.5 , 0.2,0.2"}) {
      CAPTURE(text);
      REQUIRE(parse_yolo_row(text, row) == RowKind::kBox);
      CHECK(row.box.x2 == Approx(0.6));
    }
    CHECK(parse_yolo_row("0 0,5 0,5 0,2 0,2", row) == RowKind::kBad);
    CHECK_THAT(row.why, Contains("commas"));
  }
  SECTION("A2: polygons are their bounding box") {
    REQUIRE(parse_yolo_row("1 0.1 0.2 0.5 0.9 0.3 0.05", row) == RowKind::kBox);
    CHECK(row.box.x1 == 0.1F);
    CHECK(row.box.y1 == 0.05F);
    CHECK(row.box.x2 == 0.5F);
    CHECK(row.box.y2 == 0.9F);
    CHECK(parse_yolo_row("1 0.1 0.2 0.5 0.9 0.3 0.05 0.2 0.2", row) == RowKind::kBox);
    CHECK(parse_yolo_row("1 0 0 0 0 0 0 0 0 0 0 0 1", row) == RowKind::kBox);
  }
  SECTION("what cannot be read says why") {
    const auto why = [&](const char* text) {
      CAPTURE(text);
      CHECK(parse_yolo_row(text, row) == RowKind::kBad);
      return row.why;
    };
    CHECK_THAT(why("0 0.5 0.5 0.2 0.2 0.9"), Contains("score"));
    CHECK_THAT(why("0 0.5 0.5 0.2"), Contains("4 values"));
    CHECK_THAT(why("0 0.1 0.2 0.3 0.4 0.5 0.6 0.7"), Contains("8 values"));
    CHECK_THAT(why("cat 0.5 0.5 0.1 0.1"),
               Contains("class must be an integer") && Contains("'cat'"));
    CHECK_THAT(why("0.5 0.5 0.5 0.1 0.1"), Contains("class must be an integer"));
    CHECK_THAT(why("0 0.5 x 0.1 0.1"), Contains("'x' is not a number"));
    CHECK_THAT(why("0 nan 0.5 0.1 0.1"), Contains("not a number"));
    CHECK_THAT(why("0 inf 0.5 0.1 0.1"), Contains("not a number"));
    CHECK_THAT(why("nan 0.5 0.5 0.1 0.1"), Contains("class must be"));
    CHECK_THAT(why("1e300 0.5 0.5 0.1 0.1"), Contains("class must be"));
  }
}

TEST_CASE("A1: images with an empty label file, a blank one or none") {
  const Folder folder;
  for (int i = 0; i < 4; ++i) folder.pair(fmt::format("box{}", i), "0 0.5 0.5 0.2 0.2\n");
  folder.pair("empty0", "");
  folder.pair("empty1", "");
  folder.pair("newline", "\n");
  folder.image("nolabel.png");
  folder.label("orphan.txt", "0 0.5 0.5 0.2 0.2");
  folder.label("classes.txt", "a\nb\nc\n");
  for (const bool drop : {true, false}) {
    const auto set =
        folder.open(fmt::format("ignore_empty_annotations: {}", drop ? "True" : "False"));
    const Report& report = set->report();
    CHECK(report.images == 8);
    CHECK(report.with_boxes == 4);
    CHECK(report.empty == 3);
    CHECK(report.without_label_file == 1);
    CHECK(report.labels_without_image == 1);
    CHECK(report.kept == (drop ? 4 : 8));
    CHECK(set->size() == report.kept);
    CHECK_THAT(report.text(), Contains("8 images (4 with boxes, 3 empty, 1 without label file)") &&
                                  Contains("1 labels without image"));
    for (std::int64_t i = 0; i < set->size(); ++i) CHECK_NOTHROW(set->load(i));
  }
}

TEST_CASE("A2: nothing usable is an error with the first offenders") {
  const Folder folder;
  for (int i = 0; i < 5; ++i) folder.pair(fmt::format("i{}", i), "0 0.5 0.5 0.2 0.2 0.9\n");
  CHECK_THAT(folder.error(), Contains("no image has a usable box") && Contains("labels/i0.txt:1") &&
                                 Contains("labels/i2.txt:1") && Contains("score") &&
                                 !Contains("i3.txt"));
  CHECK_THAT(folder.error("ignore_invalid_labels: False"),
             Contains("5 unreadable rows") && Contains("i1.txt:1"));
  std::filesystem::create_directories(folder.path() / "none");
  CHECK_THAT(open_error(kName, "{data_dir: " + folder.path().native() +
                                   ", images_dir: none, labels_dir: labels, classes: [a]}"),
             Contains("has no images"));
  CHECK_THAT(open_error(kName, "{data_dir: " + folder.path().native() +
                                   ", images_dir: images, labels_dir: nolabels, classes: [a]}"),
             Contains("label folder 'nolabels' not found") &&
                 Contains((folder.path() / "nolabels").native()));
}

TEST_CASE("A4: a class name instead of an id drops the row, not the image") {
  const Folder folder;
  folder.pair("i", "0 0.5 0.5 0.2 0.2\ncat 0.5 0.5 0.1 0.1\n1 0.5 0.5 0.3 0.3\n");
  const auto set = folder.open();
  CHECK(set->annotation(0).boxes.size() == 2);
  CHECK_THAT(set->report().first(Finding::kBadClass).at(0),
             Contains("i.txt:2") && Contains("got 'cat'") && Contains("0..2"));
}

TEST_CASE("A6: overshoot is clipped, boxes outside are dropped, the image stays") {
  const Folder folder;
  folder.pair("i",
              "0 0.9 0.5 0.2005 0.2\n"  // 1.00025: rounding
              "0 0.9 0.5 0.6 0.2\n"     // 1.2: clipped and counted
              "0 -0.01 0.5 0.1 0.2\n"   // clipped
              "0 1.2 0.5 0.1 0.1\n");   // outside
  const auto set = folder.open();
  const Annotation one = set->annotation(0);
  CHECK(one.normalised);
  REQUIRE(one.boxes.size() == 3);
  CHECK(one.boxes[0].x2 == 1.0F);
  CHECK(one.boxes[1].x2 == 1.0F);
  CHECK(one.boxes[2].x1 == 0.0F);
  CHECK(set->report().count(Finding::kClipped) == 2);
  CHECK(set->report().count(Finding::kOutside) == 1);
  CHECK_THAT(set->report().first(Finding::kOutside).at(0), Contains("i.txt:4"));
}

TEST_CASE("A6: pixel coordinates are recognised") {
  const Folder folder;
  folder.pair("i", "0 50 25 20 10\n0 30 20 10 10\n1 0.5 0.5 0.1 0.1\n");
  CHECK_THAT(folder.error(),
             Contains("look like pixel coordinates") && Contains("i.txt:1") && Contains("i.txt:2"));
}

TEST_CASE("A7: boxes without area") {
  const Folder folder;
  folder.pair("i", "0 0.5 0.5 0 0.2\n0 0.5 0.5 0.1 -0.2\n0 0.5 0.5 1e-12 0.2\n0 0.5 0.5 0.1 0.1\n");
  const auto set = folder.open();
  CHECK(set->annotation(0).boxes.size() == 1);
  CHECK(set->report().count(Finding::kZeroSize) == 2);
  CHECK(set->report().count(Finding::kInverted) == 1);
}

TEST_CASE("A8: class ids beyond the list stop before the first step") {
  const Folder folder;
  folder.pair("i", "1 0.5 0.5 0.2 0.2\n2 0.5 0.5 0.2 0.2\n3 0.5 0.5 0.1 0.1\n");
  CHECK_THAT(folder.error(),
             Contains("i.txt:3: class 3") && Contains("ids 0..2") && Contains("1-based"));
  folder.label("i.txt", "-1 0.5 0.5 0.2 0.2\n");
  CHECK_THAT(folder.error(), Contains("i.txt:1: class -1") && !Contains("1-based"));
  folder.label("i.txt", "255 0.5 0.5 0.2 0.2\n0 0.5 0.5 0.2 0.2\n");
  CHECK_THAT(folder.error(), Contains("class 255"));
  const auto set = folder.open("class_ids_to_ignore: [255]");
  CHECK(set->annotation(0).boxes.size() == 1);
  CHECK(set->report().count(Finding::kIgnoredClass) == 1);
}

TEST_CASE("ignored classes and class selection go by the class list") {
  const Folder folder;
  folder.pair("i", "0 0.5 0.5 0.2 0.2\n1 0.5 0.5 0.3 0.3\n2 0.5 0.5 0.4 0.4\n");
  const auto ignored = folder.open("class_ids_to_ignore: [1]");
  CHECK(ignored->class_names() == std::vector<std::string>{"a", "c"});
  REQUIRE(ignored->annotation(0).boxes.size() == 2);
  CHECK(ignored->annotation(0).boxes[1].label == 1);
  const auto included = folder.open("class_inclusion_list: [c]");
  REQUIRE(included->annotation(0).boxes.size() == 1);
  CHECK(included->annotation(0).boxes[0].width() == Approx(0.4));
  const auto ordered = folder.open("all_classes_list: [c, b, a]");
  CHECK(ordered->annotation(0).boxes[0].label == 2);
}

TEST_CASE("A20: names with dots, capital suffixes, folders below, other letters") {
  const Folder folder;
  for (const std::string name :
       {"a.b.png", "sub/deep/c.PNG", "\xEC\xA7\x80\xEB\x8B\xA8.png", "d e#f.png"}) {
    image::write_file(folder.path() / "images/x.png", support::gradient_image(8, 8));
    std::filesystem::create_directories((folder.path() / "images" / name).parent_path());
    std::filesystem::rename(folder.path() / "images/x.png", folder.path() / "images" / name);
    folder.label(name.substr(0, name.rfind('.')) + ".txt", "0 0.5 0.5 0.2 0.2\n");
  }
  const auto set = folder.open();
  CHECK(set->size() == 4);
  CHECK(set->report().labels_without_image == 0);
  for (std::int64_t i = 0; i < 4; ++i) CHECK(set->load(i).image.cols == 8);
}

TEST_CASE("loading: fractions become pixels of the fitted image (A25: one row, no row)") {
  const Folder folder;
  folder.pair("a", "1 0.5 0.5 0.2 0.4");
  folder.pair("b", "");
  const auto set = folder.open("input_dim: 50, ignore_empty_annotations: False");
  const Sample sample = set->load(0);
  CHECK(sample.image.size() == cv::Size(50, 25));
  REQUIRE(sample.boxes.size() == 1);
  CHECK(sample.boxes[0].x1 == Approx(20));
  CHECK(sample.boxes[0].y1 == Approx(7.5));
  CHECK(sample.boxes[0].x2 == Approx(30));
  CHECK(sample.boxes[0].y2 == Approx(17.5));
  CHECK(sample.boxes[0].label == 1);
  CHECK(set->load(1).boxes.empty());
}

TEST_CASE("A17: edited labels and class lists are seen at once; nothing is cached on disk (A19)") {
  const Folder folder;
  folder.pair("i", "0 0.50 0.5 0.2 0.2");
  std::size_t files = 0;
  const auto count = [&] {
    std::size_t n = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      n += entry.is_regular_file() ? 1 : 0;
    return n;
  };
  files = count();
  CHECK(folder.open()->annotation(0).boxes[0].x1 == Approx(0.4));
  folder.label("i.txt", "0 0.60 0.5 0.2 0.2");  // same size
  CHECK(folder.open()->annotation(0).boxes[0].x1 == Approx(0.5));
  CHECK(folder.open("classes: [only]")->class_names().size() == 1);
  CHECK(count() == files);
}

TEST_CASE("A18: two list files over one folder; data.yaml in its usual forms") {
  const support::TempDir dir;
  support::write_yolo(dir.path(), "train", support::make_composites({.images = 6, .seed = 3}), 10);
  const std::string root = dir.path().native();
  SECTION("folders") {
    support::write_yolo(dir.path(), "val", support::make_composites({.images = 3, .seed = 4}), 10);
    const std::string yaml = "{data_yaml: " + root + "/data.yaml, ignore_empty_annotations: False";
    CHECK(open_dataset(kName, yaml + "}")->size() == 6);
    const auto val = open_dataset(kName, yaml + ", split: val}");
    CHECK(val->size() == 3);
    CHECK(val->class_names().at(0) == "T-shirt/top");
    CHECK_THAT(open_error(kName, yaml + ", split: test}"), Contains("no 'test'"));
  }
  SECTION("list files, names as a map") {
    support::write_text(dir.path() / "train.txt",
                        "./images/train/0000.png\nimages/train/0002.png\r\n\n");
    support::write_text(dir.path() / "val.txt", root + "/images/train/0001.png\n");
    std::string names = "names:\n";
    for (int i = 9; i >= 0; --i) names += fmt::format("  {}: n{}\n", i, i);
    support::write_text(dir.path() / "d.yaml",
                        "train: train.txt\nval: [val.txt, images/train]\n" + names);
    const std::string yaml = "{data_yaml: " + root + "/d.yaml, ignore_empty_annotations: False";
    const auto train = open_dataset(kName, yaml + "}");
    const auto all = open_dataset(kName, yaml + ", split: val}");
    REQUIRE(train->size() == 2);
    REQUIRE(all->size() == 7);
    CHECK(train->class_names().at(3) == "n3");
    CHECK_THAT(train->image_path(1), Contains("images/train/0002.png"));
    CHECK(train->report().without_label_file == 0);
    CHECK(train->load(1).boxes.size() == all->load(3).boxes.size());
    CHECK(all->load(0).boxes == all->load(2).boxes);
  }
  SECTION("a list file beside the folders' keys") {
    support::write_text(dir.path() / "some.txt", "0004\n0001.png\n");
    const std::string yaml = "{data_dir: " + root +
                             ", images_dir: images/train, classes: [a,b,c,d,e,f,g,h,i,j], "
                             "ignore_empty_annotations: False, list_file: some.txt";
    const auto some = open_dataset(kName, yaml + "}");
    REQUIRE(some->size() == 2);
    CHECK_THAT(some->image_path(0), Contains("0004.png"));
    support::write_text(dir.path() / "some.txt", "0004\n0077\n");
    CHECK_THAT(open_error(kName, yaml + "}"), Contains("some.txt:2: no image '0077'"));
    CHECK(open_dataset(kName, yaml + ", skip_bad: True}")->size() == 1);
  }
  SECTION("data files that are wrong") {
    const auto error = [&](const std::string& text) {
      support::write_text(dir.path() / "e.yaml", text);
      return open_error(kName, "{data_yaml: " + root + "/e.yaml}");
    };
    CHECK_THAT(error("train: images/train\n"), Contains("'names'"));
    CHECK_THAT(error("train: images/train\nnames: [a, b]\nnc: 3\n"),
               Contains("e.yaml:3") && Contains("nc is 3"));
    CHECK_THAT(error("train: images/train\nnames: {0: a, 2: b}\n"), Contains("0..1"));
    CHECK_THAT(error("train: images/none\nnames: [a]\n"), Contains("images/none"));
    CHECK_THAT(error("- a\n"), Contains("expected a map"));
  }
}

TEST_CASE("composites as YOLO give their boxes back to a tenth of a pixel") {
  const support::TempDir dir;
  const auto composites = support::make_composites({.images = 5, .size = {211, 97}});
  support::write_yolo(dir.path(), "train", composites, 10);
  const auto set = open_dataset(
      kName, "{data_yaml: " + dir.path().native() + "/data.yaml, ignore_empty_annotations: False}");
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const Sample sample = set->load(static_cast<std::int64_t>(i));
    REQUIRE(sample.boxes.size() == composites[i].items.size());
    CHECK(support::max_difference(sample.image, composites[i].image) == 0);
    for (std::size_t k = 0; k < sample.boxes.size(); ++k) {
      CHECK(std::abs(sample.boxes[k].x1 - static_cast<float>(composites[i].items[k].box.x)) <
            1e-3F);
      CHECK(std::abs(sample.boxes[k].y2 - static_cast<float>(composites[i].items[k].box.br().y)) <
            1e-3F);
    }
  }
}

TEST_CASE("threads read in order: many files") {
  const support::TempDir dir;
  const int count = 9000;  // enough for two threads
  std::filesystem::create_directories(dir.path() / "images");
  std::filesystem::create_directories(dir.path() / "labels");
  for (int i = 0; i < count; ++i) {
    support::write_bytes(dir.path() / fmt::format("images/{:05}.jpg", i), {});
    support::write_text(dir.path() / fmt::format("labels/{:05}.txt", i),
                        i % 3 == 0 ? "" : fmt::format("0 0.5 0.5 {} 0.1\n", 0.1 + i * 1e-5));
  }
  const auto set = open_dataset(
      kName, "{data_dir: " + dir.path().native() +
                 ", images_dir: images, classes: [a], ignore_empty_annotations: False}");
  REQUIRE(set->size() == count);
  for (int i = 0; i < count; ++i) {
    const auto boxes = set->annotation(i).boxes;
    REQUIRE(boxes.size() == (i % 3 == 0 ? 0U : 1U));
    if (i % 3 != 0) REQUIRE(boxes[0].width() == Approx(0.1 + i * 1e-5));
  }
}

TEST_CASE("every mistake of the keys is one error") {
  const std::string error =
      open_error(kName, "{images_dir: 3, clases: [a], input_dim: [0, 5], split: trian}");
  CHECK_THAT(error, Contains("data_dir") && Contains("clases") && Contains("input_dim") &&
                        Contains("split"));
}

}  // namespace
}  // namespace sgtrain::data
