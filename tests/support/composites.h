// Detection data with exact annotations: items of Fashion-MNIST (Debian's dataset-fashion-mnist)
// pasted on canvases without overlap, written as COCO, YOLO or VOC folders. For tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace sgtrain::support {

struct CompositeOptions {
  int images = 8;
  cv::Size size{160, 120};
  int max_items = 4;         // 0..max_items per image; the first image has at least one
  int classes = 10;          // the first n classes of Fashion-MNIST
  double empty_share = 0.0;  // share of images without items
  std::uint64_t seed = 1;
};

struct CompositeItem {
  int label = 0;
  cv::Rect box;  // tight around the item's pixels
};

struct Composite {
  cv::Mat image;  // RGB
  cv::Mat mask;   // CV_8UC1: label + 1 where an item is, 0 elsewhere
  std::vector<CompositeItem> items;
};

/// Same options, same pictures. Throws core::InputError when Fashion-MNIST is not installed.
std::vector<Composite> make_composites(const CompositeOptions& options);
std::vector<std::string> composite_classes(int classes);

/// dir/annotations/instances_<split>.json and dir/images/<split>/000000000000.jpg …
void write_coco(const std::filesystem::path& dir, const std::string& split,
                const std::vector<Composite>& composites, int classes);
/// dir/images/<split>/0000.png …, dir/labels/<split>/0000.txt …; data.yaml names `split` and what
/// is there already.
void write_yolo(const std::filesystem::path& dir, const std::string& split,
                const std::vector<Composite>& composites, int classes);
/// dir/JPEGImages, dir/Annotations, dir/ImageSets/Main/<split>.txt; names start with the split.
void write_voc(const std::filesystem::path& dir, const std::string& split,
               const std::vector<Composite>& composites, int classes);

}  // namespace sgtrain::support
