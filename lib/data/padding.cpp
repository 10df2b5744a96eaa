#include "data/padding.h"

#include <algorithm>

namespace sgtrain::data {

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
  if (padding.top > 0) out.rowRange(0, padding.top).setTo(color);
  if (padding.bottom > 0) out.rowRange(inner_end, out.rows).setTo(color);
  cv::Mat inner = out.rowRange(padding.top, inner_end);
  if (padding.left > 0) inner.colRange(0, padding.left).setTo(color);
  if (padding.right > 0) inner.colRange(right_begin, out.cols).setTo(color);
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
