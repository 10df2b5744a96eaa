// Drawing on images for people: boxes with labels, class names, grids. Images are RGB.
#pragma once

#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <vector>

namespace sgtrain::image {

/// Colour of each class: the gist_rainbow map sampled at `classes` points, its triple reversed (as
/// the reference implementation draws), in the channel order of the image.
std::vector<cv::Scalar> class_colors(int classes);

struct LabelledBox {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;  // pixels
  int label = 0;
  float score = -1;  // negative: none (ground truth)
};

struct DrawOptions {
  int thickness = 0;  // pixels; 0: 1, 2 or 3 by the box's diagonal (up to 100, 200, more)
  bool show_confidence = true;
  double alpha = 0.75;  // weight of what is drawn over what is below, 0..1
};

/// Draws boxes with "name 0.87". Labels without a name are shown as numbers.
void draw_boxes(cv::Mat& rgb, std::span<const LabelledBox> boxes,
                std::span<const std::string> class_names, const DrawOptions& options = {});

/// Writes `text` on a strip over the top edge (classification).
void draw_caption(cv::Mat& rgb, const std::string& text, const cv::Scalar& background);

struct GridOptions {
  int columns = 0;          // 0: as square as possible
  cv::Size cell{160, 160};  // each image is fitted into this, aspect kept
  int gap = 4;              // pixels between cells
  cv::Scalar background{255, 255, 255};
};

/// Images in rows, each with its caption in a strip below it. `captions` is empty or one for each
/// image; `caption_colors` likewise (text colour, default black).
cv::Mat image_grid(std::span<const cv::Mat> images, std::span<const std::string> captions,
                   const GridOptions& options = {},
                   std::span<const cv::Scalar> caption_colors = {});

}  // namespace sgtrain::image
