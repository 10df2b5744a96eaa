#include "core/geometry.h"

namespace sgtrain::core {

void Geometry::to_original(float& x, float& y) const {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    x -= static_cast<float>(step->shift_x);
    y -= static_cast<float>(step->shift_y);
    if (step->scale_x != 1.0) x *= static_cast<float>(1.0 / step->scale_x);
    if (step->scale_y != 1.0) y *= static_cast<float>(1.0 / step->scale_y);
  }
}

std::array<float, 4> Geometry::box_to_original(std::array<float, 4> box) const {
  to_original(box[0], box[1]);
  to_original(box[2], box[3]);
  return box;
}

}  // namespace sgtrain::core
