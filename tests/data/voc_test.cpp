// Pascal VOC (cases A7, A10, A20, A22).
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/text.h"
#include "data/formats/voc_xml.h"
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

constexpr const char* kName = "PascalVOCFormatDetectionDataset";

std::string object(const std::string& name, const std::string& corners,
                   const std::string& more = "") {
  const auto c = core::split(corners, ' ');
  return fmt::format(
      "<object>\n<name>{}</name>{}<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</"
      "ymax></bndbox>"
      "</object>\n",
      name, more, c[0], c[1], c[2], c[3]);
}

std::string file(const std::string& objects,
                 const std::string& size = "<size><width>100</width><height>50</height></size>") {
  return "<annotation>\n" + size + "\n" + objects + "</annotation>\n";
}

class Folder {
 public:
  std::filesystem::path path() const { return dir_.path(); }
  void add(const std::string& image, const std::string& xml) const {
    const auto target = path() / "JPEGImages" / image;
    image::write_file(path() / "JPEGImages/tmp.png", support::gradient_image(100, 50));
    std::filesystem::rename(path() / "JPEGImages/tmp.png", target);
    if (!xml.empty())
      support::write_text(path() / "Annotations" / (image.substr(0, image.rfind('.')) + ".xml"),
                          xml);
  }
  std::string yaml(const std::string& more = "") const {
    return "{data_dir: " + path().native() + ", images_dir: JPEGImages, labels_dir: Annotations, " +
           (more.find("all_classes_list") == std::string::npos ? "all_classes_list: [cat, dog]"
                                                               : "verbose: True") +
           (more.empty() ? "" : ", " + more) + "}";
  }
  std::unique_ptr<Dataset> open(const std::string& more = "") const {
    return open_dataset(kName, yaml(more));
  }
  std::string error(const std::string& more = "") const { return open_error(kName, yaml(more)); }

 private:
  support::TempDir dir_;
};

TEST_CASE("all kinds of mistakes of a VOC folder are one error") {
  const Folder folder;
  folder.add("a.png", file(object("cow", "1 1 9 9")));
  folder.add("b.png", "<annotation><object>");
  folder.add("c.png", "no xml");
  const std::string error = folder.error();
  CHECK_THAT(error, Contains("2 kinds of mistakes"));
  CHECK_THAT(error, Contains("2 unreadable annotation files"));
  CHECK_THAT(error, Contains("b.xml"));
  CHECK_THAT(error, Contains("c.xml"));
  CHECK_THAT(error, Contains("'cow' is not listed"));
}

TEST_CASE("objects and size of one file") {
  const VocFile read = parse_voc_xml(
      "<?xml version=\"1.0\"?><!-- c "
      "--><annotation><size><width>7</width><height>5</height></size>\n"
      "<object><name> cat &amp; dog "
      "</name><difficult>1</difficult><part><name>head</name><bndbox><xmin>0</xmin></bndbox></part>"
      "<bndbox><ymax>4.5</ymax><xmin>1</xmin><ymin>2</ymin><xmax> 3 </xmax></bndbox></object>\n"
      "<object><name>x</name><bndbox><xmin>1</xmin></bndbox></object></annotation>\n<!-- end -->\n",
      "f.xml");
  CHECK(read.size == cv::Size(7, 5));
  REQUIRE(read.objects.size() == 1);
  CHECK(read.objects[0].name == "cat & dog");
  CHECK(read.objects[0].difficult);
  CHECK(read.objects[0].box == Box{1, 2, 3, 4.5F, 0, false});
  CHECK(read.objects[0].line == 2);
  REQUIRE(read.bad.size() == 1);
  CHECK(read.bad[0].first == 3);
}

TEST_CASE("A22: broken files: name and line; skip_bad counts them") {
  const std::string good = file(object("cat", "1 2 30 40"));
  const auto error = [](const std::string& text) {
    try {
      parse_voc_xml(text, "dir/f.xml");
    } catch (const core::InputError& problem) {
      return std::string(problem.what());
    }
    return std::string("parsed");
  };
  CHECK(error(good) == "parsed");
  CHECK_THAT(error(good.substr(0, good.size() / 2)), Contains("dir/f.xml:"));
  CHECK_THAT(error(good + good), Contains("dir/f.xml:6") && Contains("second root"));
  CHECK_THAT(error(good + "junk"), Contains("dir/f.xml"));
  CHECK_THAT(error(""), Contains("dir/f.xml:1") && Contains("empty"));
  CHECK_THAT(error("<a><b></a>"), Contains("not closed"));
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  CHECK_THAT(error(deep), Contains("nested too deeply"));

  const Folder folder;
  folder.add("a.jpg", good);
  folder.add("b.jpg", good.substr(0, good.size() / 2));
  folder.add("c.jpg", good + good);
  CHECK_THAT(folder.error(), Contains("b.xml:") && Contains("skip_bad"));
  const auto set = folder.open("skip_bad: True");
  CHECK(set->size() == 1);
  CHECK(set->report().count(Finding::kBadFile) == 2);
  CHECK_THAT(set->report().text(), Contains("2 unreadable annotation files") && Contains("c.xml"));
}

TEST_CASE("A7: degenerate objects are dropped, with file and line") {
  const Folder folder;
  folder.add("a.jpg", file(object("cat", "30 2 10 40") + object("cat", "5 5 5 20") +
                           object("dog", "1 2 200 40") + object("dog", "1 2 30 40")));
  const auto set = folder.open();
  const auto boxes = set->annotation(0).boxes;
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0] == Box{1, 2, 100, 40, 1, false});
  CHECK(set->report().count(Finding::kInverted) == 1);
  CHECK(set->report().count(Finding::kZeroSize) == 1);
  CHECK(set->report().count(Finding::kClipped) == 1);
  CHECK_THAT(set->report().first(Finding::kInverted).at(0), Contains("Annotations/a.xml:3"));
}

TEST_CASE("A10: classes must be listed, and listed right") {
  const Folder folder;
  folder.add("a.jpg", file(object("pedestrian", "1 2 30 40") + object("car", "1 2 30 40")));
  CHECK_THAT(folder.error("all_classes_list: []"),
             Contains("all_classes_list is missing") && Contains("[car, pedestrian]"));
  CHECK_THAT(folder.error("all_classes_list: [pedestrain, car]"),
             Contains("'pedestrian' is not listed") && Contains("did you mean 'pedestrain'") &&
                 Contains("a.xml:3"));
  const auto set =
      folder.open("all_classes_list: [car, pedestrian], class_inclusion_list: [pedestrian]");
  CHECK(set->class_names() == std::vector<std::string>{"pedestrian"});
  CHECK(set->annotation(0).boxes.size() == 1);
}

TEST_CASE("A20: images by stem, any suffix in any case, names with dots") {
  const Folder folder;
  for (const char* name : {"a.b.png", "A.JPG", "plain.jpeg", "nolabel.jpg"}) {
    folder.add(name, std::string(name) == "nolabel.jpg" ? "" : file(object("cat", "1 2 30 40")));
  }
  support::write_text(folder.path() / "Annotations/orphan.xml", file(""));
  const auto set = folder.open();
  CHECK(set->size() == 3);
  CHECK(set->report().without_label_file == 1);
  CHECK(set->report().labels_without_image == 1);
  for (std::int64_t i = 0; i < set->size(); ++i)
    CHECK(set->load(i).image.size() == cv::Size(100, 50));
  CHECK(folder.open("ignore_empty_annotations: False")->size() == 4);
}

TEST_CASE("sizes that are missing or zero are learnt from the picture") {
  const Folder folder;
  folder.add("a.jpg", file(object("cat", "90 2 130 40"), ""));
  folder.add("b.jpg",
             file(object("cat", "90 2 130 40"), "<size><width>0</width><height>0</height></size>"));
  const auto set = folder.open();
  for (std::int64_t i = 0; i < 2; ++i) {
    CHECK(set->annotation(i).size.empty());
    CHECK(set->load(i).boxes == std::vector<Box>{{90, 2, 100, 40, 0, false}});
    CHECK(set->load(i).warning.empty());
  }
}

TEST_CASE("objects marked difficult: kept, left out, or crowd") {
  const Folder folder;
  folder.add("a.jpg", file(object("cat", "1 2 30 40", "<difficult>1</difficult>") +
                           object("dog", "1 2 30 40")));
  CHECK(folder.open()->annotation(0).boxes.size() == 2);
  CHECK(folder.open("difficult: ignore")->annotation(0).boxes.size() == 1);
  CHECK(folder.open("difficult: crowd")->annotation(0).boxes[0].crowd);
  CHECK_THAT(folder.error("difficult: hard"), Contains("difficult"));
}

TEST_CASE("splits by list file; VOC's own layout and class list") {
  const support::TempDir dir;
  support::write_voc(dir.path(), "train", support::make_composites({.images = 5, .seed = 1}), 10);
  const auto val = support::make_composites({.images = 3, .seed = 2});
  support::write_voc(dir.path(), "val", val, 10);
  std::string classes = "[";
  for (const std::string& name : support::composite_classes(10)) classes += name + ", ";
  classes.replace(classes.size() - 2, 2, "]");
  const auto set = open_dataset(
      kName, "{data_dir: " + dir.path().native() +
                 ", images_dir: JPEGImages, labels_dir: Annotations, list_file: "
                 "ImageSets/Main/val.txt, ignore_empty_annotations: False, all_classes_list: " +
                 classes + "}");
  REQUIRE(set->size() == 3);
  CHECK(set->report().labels_without_image == 0);
  for (std::size_t i = 0; i < val.size(); ++i) {
    const auto boxes = set->annotation(static_cast<std::int64_t>(i)).boxes;
    REQUIRE(boxes.size() == val[i].items.size());
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      CHECK(boxes[k].label == val[i].items[k].label);
      CHECK(cv::Rect2f(boxes[k].x1, boxes[k].y1, boxes[k].width(), boxes[k].height()) ==
            cv::Rect2f(val[i].items[k].box));
    }
  }

  const Folder voc;
  voc.add("a.jpg", file(object("cat", "1 2 30 40", "<difficult>1</difficult>") +
                        object("tvmonitor", "1 2 30 40")));
  support::write_text(voc.path() / "val.txt", "a 1\n");
  const auto own = open_dataset(
      "PascalVOCDetectionDataset",
      "{data_dir: " + voc.path().native() +
          ", images_dir: JPEGImages, labels_dir: Annotations, download: True, list_file: val.txt}");
  CHECK(own->class_names().size() == 20);
  REQUIRE(own->annotation(0).boxes.size() == 1);
  CHECK(own->annotation(0).boxes[0].label == 19);
}

TEST_CASE("the reference's converted rows") {
  const support::TempDir dir;
  image::write_file(dir.path() / "images/train/a.jpg", support::gradient_image(100, 50));
  support::write_text(dir.path() / "labels/train/a.txt",
                      "1 2 30 40 7\n\n5 5 50 45 0\n1 2 3\n1 2 3 4 20\n");
  const auto set =
      open_dataset("PascalVOCDetectionDataset",
                   "{data_dir: " + dir.path().native() + ", images_sub_directory: images/train}");
  const auto boxes = set->annotation(0).boxes;
  REQUIRE(boxes.size() == 2);
  CHECK(boxes[0] == Box{1, 2, 30, 40, 7, false});
  CHECK(set->report().count(Finding::kBadRow) == 2);
  CHECK_THAT(set->report().first(Finding::kBadRow).at(0), Contains("a.txt:4"));
}

TEST_CASE("threads read in order: many annotation files") {
  const support::TempDir dir;
  const int count = 1500;
  for (int i = 0; i < count; ++i) {
    support::write_bytes(dir.path() / fmt::format("im/{:05}.jpg", i), {});
    support::write_text(
        dir.path() / fmt::format("an/{:05}.xml", i),
        file(object(i % 2 == 0 ? "dog" : "cat", fmt::format("1 1 {} 9", 2 + i % 90))));
  }
  const auto set =
      open_dataset(kName, "{data_dir: " + dir.path().native() +
                              ", images_dir: im, labels_dir: an, all_classes_list: [cat, dog]}");
  REQUIRE(set->size() == count);
  for (int i = 0; i < count; ++i) {
    const auto boxes = set->annotation(i).boxes;
    REQUIRE(boxes.size() == 1);
    REQUIRE(boxes[0] == Box{1, 1, static_cast<float>(2 + i % 90), 9, i % 2 == 0 ? 1 : 0, false});
  }
}

}  // namespace
}  // namespace sgtrain::data
