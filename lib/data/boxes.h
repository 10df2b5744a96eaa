// Arithmetic on annotated boxes, in single precision as the reference implementation does it.
#pragma once

#include <array>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "data/sample.h"

namespace sgtrain::data {

/// Clips to the image and drops boxes without area.
void clip_boxes(std::vector<Box>& boxes, cv::Size image);
void clip_box(Box& box, float width, float height);
void scale_boxes(std::vector<Box>& boxes, float scale_x, float scale_y);
void shift_boxes(std::vector<Box>& boxes, float shift_x, float shift_y);
void flip_boxes_horizontally(std::vector<Box>& boxes, int image_width);
void flip_boxes_vertically(std::vector<Box>& boxes, int image_height);
/// Counter-clockwise quarter turns (numpy.rot90); `image` is the size before the turn.
void rotate_boxes_90(std::vector<Box>& boxes, int quarter_turns, cv::Size image);
/// Axis-aligned hull of the four corners under the 2x3 matrix `m` (row major).
Box warp_box(const Box& box, const std::array<double, 6>& m);

/// A training target: class and centre form, pixels of the network input (LABEL_CXCYWH).
struct TargetRow {
  float label = 0, cx = 0, cy = 0, w = 0, h = 0;
};
TargetRow target_row(const Box& box);
/// Inverse of target_row.
Box box_of(const TargetRow& row);

}  // namespace sgtrain::data
