#include "support/composites.h"

#include <fmt/format.h>

#include <opencv2/imgproc.hpp>

#include "core/random.h"
#include "core/text.h"
#include "image/image.h"
#include "support/datasets.h"
#include "support/image_files.h"

namespace sgtrain::support {
namespace {

constexpr int kThreshold = 24;  // gray level from which a pixel belongs to an item

std::unique_ptr<data::Dataset> fashion() {
  return open_dataset("FashionMNIST", "{root: /usr/share/datasets/fashion-mnist, train: False}");
}

/// A smooth background, so that JPEG keeps the picture and boxes stay visible.
cv::Mat canvas(cv::Size size, core::Random& random) {
  cv::Mat small(3, 4, CV_8UC3);
  for (int i = 0; i < 36; ++i) small.data[i] = static_cast<std::uint8_t>(20 + random.below(60));
  cv::Mat out;
  cv::resize(small, out, size, 0, 0, cv::INTER_CUBIC);
  return out;
}

bool overlaps(const std::vector<CompositeItem>& items, const cv::Rect& box) {
  for (const CompositeItem& item : items) {
    if ((item.box & box).area() > 0) return true;
  }
  return false;
}

/// Pastes one item where it fits; gives up after a few tries.
void paste(const cv::Mat& item, int label, core::Random& random, Composite& out) {
  const int side = 20 + static_cast<int>(random.below(std::max(1, out.image.rows / 2 - 20)));
  cv::Mat scaled, gray;
  cv::resize(item, scaled, cv::Size(side, side), 0, 0, cv::INTER_AREA);
  cv::cvtColor(scaled, gray, cv::COLOR_RGB2GRAY);
  const cv::Mat inside = gray >= kThreshold;
  const cv::Rect tight = cv::boundingRect(inside);
  if (tight.empty()) return;
  const cv::Vec3d tint(0.5 + 0.5 * random.uniform(), 0.5 + 0.5 * random.uniform(),
                       0.5 + 0.5 * random.uniform());
  for (int attempt = 0; attempt < 20; ++attempt) {
    const cv::Point at(static_cast<int>(random.below(out.image.cols - tight.width + 1)),
                       static_cast<int>(random.below(out.image.rows - tight.height + 1)));
    const cv::Rect box(at, tight.size());
    if (overlaps(out.items, box)) continue;
    for (int y = 0; y < tight.height; ++y) {
      for (int x = 0; x < tight.width; ++x) {
        if (inside.at<std::uint8_t>(tight.y + y, tight.x + x) == 0) continue;
        const auto value = gray.at<std::uint8_t>(tight.y + y, tight.x + x);
        for (int c = 0; c < 3; ++c) {
          out.image.at<cv::Vec3b>(at.y + y, at.x + x)[c] =
              cv::saturate_cast<std::uint8_t>(90 + value * 0.64 * tint[c]);
        }
        out.mask.at<std::uint8_t>(at.y + y, at.x + x) = static_cast<std::uint8_t>(label + 1);
      }
    }
    out.items.push_back({label, box});
    return;
  }
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

}  // namespace

std::vector<std::string> composite_classes(int classes) {
  const auto names = fashion()->class_names();
  return {names.begin(), names.begin() + classes};
}

std::vector<Composite> make_composites(const CompositeOptions& options) {
  const auto items = fashion();
  std::vector<Composite> out;
  for (int i = 0; i < options.images; ++i) {
    core::Random random({options.seed, static_cast<std::uint64_t>(i)});
    Composite one;
    one.image = canvas(options.size, random);
    one.mask = cv::Mat::zeros(options.size, CV_8UC1);
    const bool empty = i > 0 && random.chance(options.empty_share);
    const std::int64_t count =
        empty ? 0 : (i == 0 ? 1 : 0) + random.below(options.max_items + (i == 0 ? 0 : 1));
    while (static_cast<std::int64_t>(one.items.size()) < count) {
      const std::int64_t index = random.below(items->size());
      const int label = items->annotation(index).label;
      if (label >= options.classes) continue;
      const std::size_t before = one.items.size();
      paste(items->load(index).image, label, random, one);
      if (one.items.size() == before) break;  // the canvas is full
    }
    out.push_back(std::move(one));
  }
  return out;
}

void write_coco(const std::filesystem::path& dir, const std::string& split,
                const std::vector<Composite>& composites, int classes) {
  std::vector<std::string> images, annotations, categories;
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const std::string name = fmt::format("{:012}.jpg", i);
    image::write_file(dir / "images" / split / name, composites[i].image, 95);
    images.push_back(fmt::format(R"({{"id": {}, "file_name": "{}", "width": {}, "height": {}}})", i,
                                 name, composites[i].image.cols, composites[i].image.rows));
    for (const CompositeItem& item : composites[i].items) {
      annotations.push_back(fmt::format(
          R"({{"id": {}, "image_id": {}, "category_id": {}, "bbox": [{}, {}, {}, {}], "area": {}, "iscrowd": 0}})",
          annotations.size() + 1, i, item.label + 1, item.box.x, item.box.y, item.box.width,
          item.box.height, item.box.area()));
    }
  }
  const auto names = composite_classes(classes);
  for (std::size_t i = 0; i < names.size(); ++i) {
    categories.push_back(fmt::format(R"({{"id": {}, "name": "{}"}})", i + 1, names[i]));
  }
  write_text(dir / "annotations" / fmt::format("instances_{}.json", split),
             fmt::format("{{\"images\": [{}],\n\"annotations\": [{}],\n\"categories\": [{}]}}\n",
                         core::join(images, ",\n"), core::join(annotations, ",\n"),
                         core::join(categories, ", ")));
}

void write_yolo(const std::filesystem::path& dir, const std::string& split,
                const std::vector<Composite>& composites, int classes) {
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const std::string name = fmt::format("{:04}", i);
    const double width = composites[i].image.cols, height = composites[i].image.rows;
    image::write_file(dir / "images" / split / (name + ".png"), composites[i].image);
    std::vector<std::string> rows;
    for (const CompositeItem& item : composites[i].items) {
      rows.push_back(fmt::format("{} {} {} {} {}", item.label,
                                 (item.box.x + item.box.width / 2.0) / width,
                                 (item.box.y + item.box.height / 2.0) / height,
                                 item.box.width / width, item.box.height / height));
    }
    write_text(dir / "labels" / split / (name + ".txt"), join_lines(rows));
  }
  std::string yaml = "path: .\n";
  for (const std::string known : {"train", "val", "test"}) {
    if (std::filesystem::exists(dir / "images" / known)) yaml += known + ": images/" + known + "\n";
  }
  yaml += fmt::format("nc: {}\nnames:\n", classes);
  for (const std::string& name : composite_classes(classes)) yaml += "  - " + name + "\n";
  write_text(dir / "data.yaml", yaml);
}

void write_voc(const std::filesystem::path& dir, const std::string& split,
               const std::vector<Composite>& composites, int classes) {
  const auto names = composite_classes(classes);
  std::vector<std::string> list;
  for (std::size_t i = 0; i < composites.size(); ++i) {
    const std::string name = fmt::format("{}_{:04}", split, i);
    list.push_back(name);
    image::write_file(dir / "JPEGImages" / (name + ".jpg"), composites[i].image, 95);
    std::string xml = fmt::format(
        "<annotation>\n  <filename>{}.jpg</filename>\n  <size><width>{}</width><height>{}</height>"
        "<depth>3</depth></size>\n",
        name, composites[i].image.cols, composites[i].image.rows);
    for (const CompositeItem& item : composites[i].items) {
      xml += fmt::format(
          "  <object>\n    <name>{}</name>\n    <difficult>0</difficult>\n    "
          "<bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox>\n"
          "  </object>\n",
          names[static_cast<std::size_t>(item.label)], item.box.x, item.box.y, item.box.br().x,
          item.box.br().y);
    }
    write_text(dir / "Annotations" / (name + ".xml"), xml + "</annotation>\n");
  }
  write_text(dir / "ImageSets/Main" / (split + ".txt"), join_lines(list));
}

}  // namespace sgtrain::support
