#include "data/boxes.h"

#include <algorithm>
#include <utility>

namespace sgtrain::data {

void clip_box(Box& box, float width, float height) {
  box.x1 = std::clamp(box.x1, 0.0F, width);
  box.x2 = std::clamp(box.x2, 0.0F, width);
  box.y1 = std::clamp(box.y1, 0.0F, height);
  box.y2 = std::clamp(box.y2, 0.0F, height);
}

void clip_boxes(std::vector<Box>& boxes, cv::Size image) {
  for (Box& box : boxes) {
    clip_box(box, static_cast<float>(image.width), static_cast<float>(image.height));
  }
  std::erase_if(boxes, [](const Box& box) { return !(box.width() * box.height() > 0.0F); });
}

void scale_boxes(std::vector<Box>& boxes, float scale_x, float scale_y) {
  for (Box& box : boxes) {
    box.x1 *= scale_x;
    box.x2 *= scale_x;
    box.y1 *= scale_y;
    box.y2 *= scale_y;
  }
}

void shift_boxes(std::vector<Box>& boxes, float shift_x, float shift_y) {
  for (Box& box : boxes) {
    box.x1 += shift_x;
    box.x2 += shift_x;
    box.y1 += shift_y;
    box.y2 += shift_y;
  }
}

void flip_boxes_horizontally(std::vector<Box>& boxes, int image_width) {
  const auto width = static_cast<float>(image_width);
  for (Box& box : boxes) {
    box.x1 = width - std::exchange(box.x2, width - box.x1);
  }
}

void flip_boxes_vertically(std::vector<Box>& boxes, int image_height) {
  const auto height = static_cast<float>(image_height);
  for (Box& box : boxes) {
    box.y1 = height - std::exchange(box.y2, height - box.y1);
  }
}

void rotate_boxes_90(std::vector<Box>& boxes, int quarter_turns, cv::Size image) {
  const auto cols = static_cast<float>(image.width);
  const auto rows = static_cast<float>(image.height);
  for (Box& box : boxes) {
    const Box old = box;
    switch (quarter_turns & 3) {
      case 1:
        box.x1 = old.y1, box.y1 = cols - old.x2, box.x2 = old.y2, box.y2 = cols - old.x1;
        break;
      case 2:
        box.x1 = cols - old.x2, box.y1 = rows - old.y2;
        box.x2 = cols - old.x1, box.y2 = rows - old.y1;
        break;
      case 3:
        box.x1 = rows - old.y2, box.y1 = old.x1, box.x2 = rows - old.y1, box.y2 = old.x2;
        break;
      default:
        break;
    }
  }
}

Box warp_box(const Box& box, const std::array<double, 6>& m) {
  const std::array<std::pair<double, double>, 4> corners{
      {{box.x1, box.y1}, {box.x2, box.y2}, {box.x1, box.y2}, {box.x2, box.y1}}};
  double x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  bool first = true;
  for (const auto& [px, py] : corners) {
    const double x = m[0] * px + m[1] * py + m[2];
    const double y = m[3] * px + m[4] * py + m[5];
    x1 = first ? x : std::min(x1, x);
    y1 = first ? y : std::min(y1, y);
    x2 = first ? x : std::max(x2, x);
    y2 = first ? y : std::max(y2, y);
    first = false;
  }
  Box out = box;
  out.x1 = static_cast<float>(x1);
  out.y1 = static_cast<float>(y1);
  out.x2 = static_cast<float>(x2);
  out.y2 = static_cast<float>(y2);
  return out;
}

TargetRow target_row(const Box& box) {
  return {static_cast<float>(box.label), (box.x1 + box.x2) * 0.5F, (box.y1 + box.y2) * 0.5F,
          box.width(), box.height()};
}

Box box_of(const TargetRow& row) {
  return {.x1 = row.cx - row.w * 0.5F,
          .y1 = row.cy - row.h * 0.5F,
          .x2 = row.cx + row.w * 0.5F,
          .y2 = row.cy + row.h * 0.5F,
          .label = static_cast<std::int32_t>(row.label)};
}

}  // namespace sgtrain::data
