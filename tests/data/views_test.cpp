#include "data/views.h"

#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "support/composites.h"
#include "support/datasets.h"
#include "support/temp_dir.h"

using namespace sgtrain;

namespace {

std::unique_ptr<data::Dataset> composites(const support::TempDir& dir, int images) {
  support::write_coco(dir.path(), "train",
                      support::make_composites({.images = images, .classes = 2, .seed = 3}), 2);
  return support::open_dataset("COCOFormatDetectionDataset",
                               "{data_dir: " + dir.path().string() +
                                   ", json_annotation_file: annotations/instances_train.json, "
                                   "images_dir: images/train, ignore_empty_annotations: False}");
}

}  // namespace

TEST_CASE("a part of a data set is an even selection with its own indices") {
  const support::TempDir dir;
  const auto whole = composites(dir, 10);
  const auto part = data::part_of(composites(dir, 10), 0.4);
  REQUIRE(part->size() == 4);
  std::set<std::string> names;
  for (std::int64_t i = 0; i < part->size(); ++i) {
    const data::Sample sample = part->load(i);
    CHECK(sample.index == i);
    CHECK(part->annotation(i).boxes.size() == sample.boxes.size());
    CHECK(part->image_path(i).ends_with(sample.name));
    names.insert(sample.name);
  }
  CHECK(names.size() == 4);
  CHECK(part->image_path(0) == whole->image_path(0));
  CHECK(part->image_path(3) == whole->image_path(7));  // reaches over the whole set
  CHECK_THROWS_AS(part->load(4), core::Error);
  CHECK(data::part_of(composites(dir, 10), 1.0)->size() == 10);
  CHECK(data::part_of(composites(dir, 10), 1e-6)->size() == 1);
}

TEST_CASE("pictures kept in memory are decoded once and equal") {
  const support::TempDir dir;
  const auto plain = composites(dir, 4);
  const auto kept = data::kept_in_memory(composites(dir, 4), std::size_t{1} << 30);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i = 0; i < kept->size(); ++i) kept->load(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t i = 0; i < kept->size(); ++i) {
    const data::Sample a = kept->load(i), b = plain->load(i);
    CHECK(cv::norm(a.image, b.image, cv::NORM_INF) == 0);
    CHECK(a.boxes == b.boxes);
    CHECK(kept->load(i).image.data == a.image.data);
  }
  try {
    data::kept_in_memory(composites(dir, 4), 1000);
    FAIL("a budget of 1000 bytes was enough");
  } catch (const core::InputError& error) {
    CHECK_THAT(error.what(), Catch::Contains("4 decoded pictures"));
  }
}
