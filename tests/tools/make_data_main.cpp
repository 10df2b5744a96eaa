// make_data_tool classification|detection FOLDER IMAGES SIZE [CLASSES]: tiny data sets for script
// tests. classification: FOLDER/c<k>/<i>.png, coloured discs; detection: FOLDER/<i>.png and
// FOLDER/annotations.json (COCO), rectangles of one colour a class; every image whose number is odd
// shows nothing, so that on two processes one sees only negatives.
// Options: crowd=N (objects in image 0), all (no empty images).
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/random.h"
#include "image/image.h"

using namespace sgtrain;

namespace {

struct Options {
  std::filesystem::path folder;
  int images = 0, size = 0, classes = 2, crowd = 0;
  bool all = false;
};

cv::Vec3b colour_of(int label) {
  return {static_cast<unsigned char>(60 + 90 * (label % 3)),
          static_cast<unsigned char>(220 - 70 * (label % 4)),
          static_cast<unsigned char>(40 + 200 * (label % 2))};
}

cv::Mat background(int size, core::Random& random) {
  cv::Mat image(size, size, CV_8UC3);
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      image.at<cv::Vec3b>(y, x) = cv::Vec3b::all(static_cast<unsigned char>(random.below(60)));
    }
  }
  return image;
}

void make_classification(const Options& o) {
  for (int i = 0; i < o.images; ++i) {
    core::Random random{17, static_cast<std::uint64_t>(i)};
    cv::Mat image = background(o.size, random);
    const int label = i % o.classes, side = o.size / 2;
    const auto x = static_cast<int>(random.below(o.size - side));
    const auto y = static_cast<int>(random.below(o.size - side));
    image(cv::Rect(x, y, side, side)).setTo(cv::Scalar(colour_of(label)));
    image::write_file(o.folder / ("c" + std::to_string(label)) / (std::to_string(i) + ".png"),
                      image);
  }
}

void make_detection(const Options& o) {
  nlohmann::json coco;
  coco["images"] = coco["annotations"] = coco["categories"] = nlohmann::json::array();
  for (int c = 0; c < o.classes; ++c)
    coco["categories"].push_back({{"id", c + 1}, {"name", "class" + std::to_string(c)}});
  int next = 1;
  for (int i = 0; i < o.images; ++i) {
    core::Random random{23, static_cast<std::uint64_t>(i)};
    cv::Mat image = background(o.size, random);
    const int objects = i == 0 && o.crowd > 0 ? o.crowd : o.all || i % 2 == 0 ? 1 + i % 3 : 0;
    for (int k = 0; k < objects; ++k) {
      const int label = static_cast<int>(random.below(o.classes));
      const auto w = static_cast<int>(8 + random.below(o.size / 3));
      const auto h = static_cast<int>(8 + random.below(o.size / 3));
      const auto x = static_cast<int>(random.below(o.size - w));
      const auto y = static_cast<int>(random.below(o.size - h));
      image(cv::Rect(x, y, w, h)).setTo(cv::Scalar(colour_of(label)));
      coco["annotations"].push_back({{"id", next++},
                                     {"image_id", i + 1},
                                     {"category_id", label + 1},
                                     {"bbox", {x, y, w, h}},
                                     {"area", w * h},
                                     {"iscrowd", 0}});
    }
    const std::string name = std::to_string(i) + ".png";
    coco["images"].push_back(
        {{"id", i + 1}, {"file_name", name}, {"width", o.size}, {"height", o.size}});
    image::write_file(o.folder / name, image);
  }
  core::write_file_atomically(o.folder / "annotations.json", coco.dump());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("usage: make_data_tool classification|detection FOLDER IMAGES SIZE [CLASSES] …\n",
               stderr);
    return 2;
  }
  Options o{.folder = argv[2], .images = std::atoi(argv[3]), .size = std::atoi(argv[4])};
  for (int i = 5; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "all") {
      o.all = true;
    } else if (word.starts_with("crowd=")) {
      o.crowd = std::atoi(word.c_str() + 6);
    } else {
      o.classes = std::atoi(word.c_str());
    }
  }
  try {
    std::string_view(argv[1]) == "detection" ? make_detection(o) : make_classification(o);
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
