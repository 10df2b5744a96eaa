// Borders around images.
#pragma once

#include <opencv2/core.hpp>

#include "core/node.h"

namespace sgtrain::data {

/// Pixels added on each side.
struct Padding {
  int top = 0, bottom = 0, left = 0, right = 0;
};

/// Odd remainders go below and to the right. Where the target is smaller, nothing is added.
Padding center_padding(cv::Size image, cv::Size target);
Padding bottom_right_padding(cv::Size image, cv::Size target);

/// `image` into `out` (of the padded size) with a border of `color`.
void pad_image(const cv::Mat& image, const Padding& padding, const cv::Scalar& color, cv::Mat out);
/// Only the border: the inside is there already.
void fill_padding(cv::Mat out, const Padding& padding, const cv::Scalar& color);

/// A recipe's colour for memory whose channels are reversed.
cv::Scalar pad_color(const cv::Scalar& color, bool reversed);
/// One number when all channels are equal, else three.
core::TreePtr pad_tree(const cv::Scalar& color);

}  // namespace sgtrain::data
