// IDX, CIFAR and image folders.
#include <zlib.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "image/image.h"
#include "support/datasets.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::data {
namespace {

using Catch::Contains;
using support::FileBytes;
using support::open_dataset;
using support::open_error;

FileBytes idx(std::vector<std::uint32_t> dims, FileBytes data, std::uint8_t type = 8) {
  FileBytes out = {0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8)
      out.push_back(static_cast<std::uint8_t>(dim >> shift));
  }
  for (const std::uint8_t byte : data) out.push_back(byte);
  return out;
}

void write_gz(const std::filesystem::path& path, const FileBytes& bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

std::string yaml_of(const std::filesystem::path& dir) {
  return "{images: " + (dir / "images").native() + ", labels: " + (dir / "labels").native() + "}";
}

TEST_CASE("IDX, plain and packed, gray and colour") {
  // Not sections: the checks below belong to each way of packing.
  const int packing = GENERATE(0, 1, 2);
  const support::TempDir dir;
  const FileBytes images = idx({2, 2, 3}, {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16});
  const FileBytes labels = idx({2}, {4, 0});
  if (packing == 0) {  // plain
    support::write_bytes(dir.path() / "images", images);
    support::write_bytes(dir.path() / "labels", labels);
  } else {  // gzip, under the same name or with .gz
    const std::string suffix = packing == 1 ? "" : ".gz";
    write_gz(dir.path() / ("images" + suffix), images);
    write_gz(dir.path() / ("labels" + suffix), labels);
  }
  const auto set = open_dataset("IDXDataset", yaml_of(dir.path()));
  REQUIRE(set->size() == 2);
  CHECK(set->task() == Task::kClassification);
  CHECK(set->annotation(0).label == 4);
  CHECK(set->class_names() == std::vector<std::string>{"0", "1", "2", "3", "4"});
  const Sample sample = set->load(1);
  CHECK(sample.label == 0);
  CHECK(sample.image.size() == cv::Size(3, 2));
  CHECK(sample.image.at<cv::Vec3b>(1, 2) == cv::Vec3b::all(16));
  CHECK(set->report().images == 2);
}

TEST_CASE("IDX with three channels keeps their order") {
  const support::TempDir dir;
  support::write_bytes(dir.path() / "images", idx({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  support::write_bytes(dir.path() / "labels", idx({1}, {0}));
  const auto set = open_dataset("IDXDataset", yaml_of(dir.path()));
  CHECK(set->load(0).image.at<cv::Vec3b>(0, 1) == cv::Vec3b(4, 5, 6));
}

TEST_CASE("IDX files that are wrong are named") {
  const support::TempDir dir;
  const auto error = [&](const FileBytes& images, const FileBytes& labels, const char* more = "") {
    support::write_bytes(dir.path() / "images", images);
    support::write_bytes(dir.path() / "labels", labels);
    std::string yaml = yaml_of(dir.path());
    yaml.insert(yaml.size() - 1, more);
    return open_error("IDXDataset", yaml);
  };
  const FileBytes good_images = idx({1, 1, 1}, {7}), good_labels = idx({1}, {0});
  CHECK(error(good_images, good_labels) == "opened");
  CHECK_THAT(error(idx({2, 1, 1}, {7}), good_labels),
             Contains("ends too early") && Contains("/images"));
  CHECK_THAT(error(idx({1, 1, 1}, {7, 8}), good_labels), Contains("bytes behind the end"));
  CHECK_THAT(error(idx({2, 1, 1}, {7, 8}), good_labels), Contains("1 labels for 2 images"));
  CHECK_THAT(error(idx({1, 1, 1}, {7}, 0x0D), good_labels), Contains("IDX header"));
  CHECK_THAT(error({'t', 'e', 'x', 't', '!'}, good_labels), Contains("IDX header"));
  CHECK_THAT(error({}, good_labels), Contains("ends too early"));
  CHECK_THAT(error(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, {}), good_labels),
             Contains("more than 16 GiB"));
  CHECK_THAT(error(idx({100'000, 200, 200}, {1, 2}), good_labels), Contains("ends too early"));
  CHECK_THAT(error(good_images, idx({1}, {3}), ", class_names: [a, b]"),
             Contains("labels[0]: class 3") && Contains("ids 0..1"));
  CHECK_THAT(open_error("IDXDataset", "{images: none.idx, labels: none.idx}"),
             Contains("none.idx") && Contains("tried"));
}

TEST_CASE("Fashion-MNIST of Debian") {
  const auto test =
      open_dataset("FashionMNIST", "{root: /usr/share/datasets/fashion-mnist, train: False}");
  CHECK(test->size() == 10'000);
  CHECK(test->class_names().at(9) == "Ankle boot");
  CHECK(test->annotation(0).label == 9);
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < test->size(); ++i) {
    ++counts[static_cast<std::size_t>(test->annotation(i).label)];
  }
  CHECK(counts == std::vector<int>(10, 1000));
  CHECK(test->load(3).image.size() == cv::Size(28, 28));
}

TEST_CASE("CIFAR, binary version") {
  const support::TempDir dir;
  const auto record = [](FileBytes head, int seed) {
    for (int i = 0; i < 3072; ++i)
      head.push_back(static_cast<std::uint8_t>(i / 1024 * 50 + (i + seed) % 40));
    return head;
  };
  SECTION("CIFAR-10") {
    const auto folder = dir.path() / "cifar-10-batches-bin";
    for (int batch = 1; batch <= 5; ++batch) {
      FileBytes file = record({static_cast<std::uint8_t>(batch)}, batch);
      const FileBytes second = record({9}, batch + 10);
      std::copy(second.begin(), second.end(), std::back_inserter(file));
      support::write_bytes(folder / ("data_batch_" + std::to_string(batch) + ".bin"), file);
    }
    support::write_text(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
    const std::string yaml = "{root: " + dir.path().native() + ", train: True, download: True}";
    const auto set = open_dataset("Cifar10", yaml);
    REQUIRE(set->size() == 10);
    CHECK(set->class_names().at(2) == "c");
    CHECK(set->annotation(4).label == 3);
    const Sample sample = set->load(5);  // second record of the third batch
    CHECK(sample.label == 9);
    CHECK(sample.image.at<cv::Vec3b>(0, 0) ==
          cv::Vec3b(13, (1024 + 13) % 40 + 50, (2048 + 13) % 40 + 100));
    CHECK_THAT(set->image_path(5), Contains("data_batch_3.bin[1]"));
    CHECK_THAT(open_error("Cifar10", "{root: " + dir.path().native() + ", train: False}"),
               Contains("test_batch.bin"));
    support::write_bytes(folder / "test_batch.bin", record({10}, 0));
    CHECK_THAT(open_error("Cifar10", "{root: " + dir.path().native() + ", train: False}"),
               Contains("class 10 of 10"));
    support::write_bytes(folder / "test_batch.bin", {1, 2, 3});
    CHECK_THAT(open_error("Cifar10", "{root: " + dir.path().native() + ", train: False}"),
               Contains("records of 3073 bytes"));
  }
  SECTION("CIFAR-100 uses the fine label") {
    support::write_bytes(dir.path() / "test.bin", record({3, 77}, 1));
    const auto set = open_dataset("Cifar100", "{root: " + dir.path().native() + ", train: False}");
    CHECK(set->annotation(0).label == 77);
    CHECK(set->num_classes() == 100);
  }
}

TEST_CASE("image folders: classes by sorted name, images of any suffix and depth") {
  const support::TempDir dir;
  const cv::Mat image = support::gradient_image(10, 8);
  for (const char* name :
       {"dog/2.JPG", "dog/10.jpeg", "cat/deep/x.png", "cat/a b.png", "cat/.hidden.png"}) {
    image::write_file(dir.path() / (std::string(name) + ".png"), image);
    std::filesystem::rename(dir.path() / (std::string(name) + ".png"), dir.path() / name);
  }
  std::filesystem::create_directories(dir.path() / "empty");
  support::write_text(dir.path() / "dog/notes.txt", "no picture");
  const auto set = open_dataset("ImageNetDataset", "{root: " + dir.path().native() + "}");
  CHECK(set->class_names() == std::vector<std::string>{"cat", "dog", "empty"});
  REQUIRE(set->size() == 4);
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < 4; ++i) names.push_back(set->load(i).name);
  CHECK(names == std::vector<std::string>{"a b.png", "deep/x.png", "10.jpeg", "2.JPG"});
  CHECK(set->annotation(3).label == 1);
  CHECK(support::max_difference(set->load(3).image, image) == 0);
  CHECK_THAT(set->report().text(), Contains("no images of class 'empty'"));
  CHECK_THAT(open_error("ImageFolder", "{root: " + (dir.path() / "dog").native() + "}"),
             Contains("no class folders"));
  CHECK_THAT(open_error("ImageFolder", "{root: " + dir.path().native() + ", rot: 1}"),
             Contains("rot") && Contains("root"));
}

TEST_CASE("num_classes is checked against labels before the first step") {
  const support::TempDir dir;
  support::write_bytes(dir.path() / "images", idx({3, 1, 1}, {7, 8, 9}));
  support::write_bytes(dir.path() / "labels", idx({3}, {1, 2, 3}));
  const auto set = open_dataset("IDXDataset", yaml_of(dir.path()));
  CHECK_NOTHROW(check_num_classes(*set, 4, "recipe.yaml:3"));
  CHECK_THROWS_WITH(check_num_classes(*set, 3, "recipe.yaml:3"),
                    Contains("recipe.yaml:3") && Contains("images[2]: class 3") &&
                        Contains("num_classes=3 (ids 0..2)") && Contains("1-based"));
}

}  // namespace
}  // namespace sgtrain::data
