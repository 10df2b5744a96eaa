// How long it takes to index large data sets (case A16). By hand: labels soak.
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>

#include <fmt/format.h>

#include "support/datasets.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::data {
namespace {

/// Processor time of all threads: what a busy machine does not distort.
struct Spent {
  double wall = 0, processor = 0;
};
Spent measure(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t before = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC};
}

TEST_CASE("200,000 YOLO label files are indexed within two seconds", "[soak]") {
  const support::TempDir dir;
  const int count = 200'000;
  std::filesystem::create_directories(dir.path() / "images");
  std::filesystem::create_directories(dir.path() / "labels");
  for (int i = 0; i < count; ++i) {
    std::ofstream(dir.path() / fmt::format("images/{:07}.jpg", i));
    std::ofstream(dir.path() / fmt::format("labels/{:07}.txt", i))
        << "0 0.5 0.5 0.2 0.2\n1 0.25 0.75 0.125 0.0625\n";
  }
  const std::string yaml =
      "{data_dir: " + dir.path().native() + ", images_dir: images, classes: [a, b]}";
  std::unique_ptr<Dataset> set;
  for (int pass = 0; pass < 2; ++pass) {
    const Spent spent =
        measure([&] { set = support::open_dataset("YoloDarknetFormatDetectionDataset", yaml); });
    std::cout << fmt::format("YOLO: {} label files in {:.2f} s, {:.2f} s of processor time\n",
                             count, spent.wall, spent.processor);
    if (pass == 1) CHECK(spent.processor < 2.0);
  }
  CHECK(set->report().boxes == 2 * count);
}

TEST_CASE("a COCO file of 118,000 images and 860,000 polygons is indexed within four seconds",
          "[soak]") {
  const support::TempDir dir;
  const int images = 118'000, annotations = 860'000;
  support::write_bytes(dir.path() / "images/000000000000.jpg", {});
  {
    std::ofstream file(dir.path() / "l.json");
    file << "{\"info\": {}, \"images\": [";
    for (int i = 0; i < images; ++i) {
      file << (i > 0 ? ", " : "")
           << fmt::format(
                  "{{\"license\": 3, \"file_name\": \"{:012}.jpg\", \"coco_url\": "
                  "\"http://example.org/train2017/{:012}.jpg\", \"height\": 480, \"width\": 640, "
                  "\"id\": {}}}",
                  i, i, i);
    }
    file << "], \"annotations\": [";
    for (int i = 0; i < annotations; ++i) {
      file << (i > 0 ? ", " : "") << "{\"segmentation\": [[";
      for (int k = 0; k < 48; ++k)
        file << (k > 0 ? ", " : "") << fmt::format("{}.{}", 100 + (i * 7 + k) % 400, k);
      file << fmt::format(
          "]], \"area\": 702.{}, \"iscrowd\": 0, \"image_id\": {}, \"bbox\": [{}.38, 10.5, 39.2, "
          "38.1], \"category_id\": {}, \"id\": {}}}",
          i % 1000, static_cast<int>(i * 7919LL % images), i % 500, 1 + i % 80, i);
    }
    file << "], \"categories\": [";
    for (int i = 0; i < 80; ++i)
      file << (i > 0 ? ", " : "") << fmt::format("{{\"id\": {}, \"name\": \"c{}\"}}", i + 1, i);
    file << "]}";
  }
  const std::string yaml =
      "{data_dir: " + dir.path().native() + ", json_annotation_file: l.json, images_dir: images}";
  std::unique_ptr<Dataset> set;
  const Spent spent =
      measure([&] { set = support::open_dataset("COCOFormatDetectionDataset", yaml); });
  std::cout << fmt::format(
      "COCO: {} MB, {} images, {} boxes in {:.2f} s, {:.2f} s of processor time\n",
      std::filesystem::file_size(dir.path() / "l.json") >> 20, images, annotations, spent.wall,
      spent.processor);
  CHECK(spent.processor < 4.0);
  CHECK(set->report().boxes == annotations);
}

}  // namespace
}  // namespace sgtrain::data
