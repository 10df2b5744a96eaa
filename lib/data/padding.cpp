#include "data/padding.h"

#include <algorithm>
#include <cstring>

namespace sgtrain::data {
namespace {

/// Mat::setTo copies patterns about; equal bytes can be set in one go.
void fill(cv::Mat part, const cv::Scalar& color) {
  if (part.empty()) return;
  if (part.type() != CV_8UC3 || color[0] != color[1] || color[1] != color[2]) {
    part.setTo(color);
    return;
  }
  const int value = cv::saturate_cast<uchar>(color[0]);
  const auto row = static_cast<std::size_t>(3 * part.cols);
  if (part.isContinuous()) {
    std::memset(part.data, value, row * static_cast<std::size_t>(part.rows));
    return;
  }
  for (int y = 0; y < part.rows; ++y) std::memset(part.ptr(y), value, row);
}

}  // namespace

Padding center_padding(cv::Size image, cv::Size target) {
  const int height = std::max(0, target.height - image.height);
  const int width = std::max(0, target.width - image.width);
  return {height / 2, height - height / 2, width / 2, width - width / 2};
}

Padding bottom_right_padding(cv::Size image, cv::Size target) {
  return {.bottom = std::max(0, target.height - image.height),
          .right = std::max(0, target.width - image.width)};
}

void fill_padding(cv::Mat out, const Padding& padding, const cv::Scalar& color) {
  const int inner_end = out.rows - padding.bottom;
  const int right_begin = out.cols - padding.right;
  fill(out.rowRange(0, padding.top), color);
  fill(out.rowRange(inner_end, out.rows), color);
  const cv::Mat inner = out.rowRange(padding.top, inner_end);
  fill(inner.colRange(0, padding.left), color);
  fill(inner.colRange(right_begin, out.cols), color);
}

void pad_image(const cv::Mat& image, const Padding& padding, const cv::Scalar& color, cv::Mat out) {
  image.copyTo(out(cv::Rect({padding.left, padding.top}, image.size())));
  fill_padding(out, padding, color);
}

cv::Scalar pad_color(const cv::Scalar& color, bool reversed) {
  return reversed ? cv::Scalar(color[2], color[1], color[0]) : color;
}

core::TreePtr pad_tree(const cv::Scalar& color) {
  const auto whole = [](double v) { return core::Tree::of(static_cast<std::int64_t>(v)); };
  if (color[0] == color[1] && color[1] == color[2]) return whole(color[0]);
  const core::TreePtr list = core::Tree::make_list();
  for (int c = 0; c < 3; ++c) list->list.push_back(whole(color[c]));
  return list;
}

}  // namespace sgtrain::data
