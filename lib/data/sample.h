// One image with its annotations: what a data set loads, transforms change and the loader collates.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace sgtrain::data {

/// An annotated box: corners in pixels of the image it belongs to (x2, y2 exclusive: a box that
/// covers the whole image is 0, 0, width, height).
struct Box {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  std::int32_t label = 0;  // contiguous class index
  bool crowd = false;      // a region of many objects: ignored in scoring, never a target

  float width() const { return x2 - x1; }
  float height() const { return y2 - y1; }
  bool operator==(const Box&) const = default;
};

/// A keypoint: pixels, visibility 0 (not labelled), 1 (hidden), 2 (visible).
struct Joint {
  float x = 0, y = 0;
  float visibility = 0;
};

struct Sample {
  cv::Mat image;  // CV_8UC3, RGB, upright

  std::int32_t label = -1;    // classification
  std::vector<Box> boxes;     // detection and pose; crowd boxes included, in the file's order
  cv::Mat mask;               // segmentation: CV_8UC1 or CV_16UC1 class ids, size of the image
  std::vector<Joint> joints;  // pose: boxes.size() * joints_per_object, object after object

  std::int64_t index = -1;     // in its data set
  std::int64_t image_id = -1;  // the file's own id (COCO), else the index
  cv::Size original_size;      // upright size of the file, before any resize
  std::string name;            // file name (for messages and results)
  std::string warning;         // the file is damaged but was decoded in part; else empty
};

}  // namespace sgtrain::data
