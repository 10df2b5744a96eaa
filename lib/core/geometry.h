// How a picture became network input, and the way back. One place for prediction and scoring, so
// that both see the same boxes to the last bit.
#pragma once

#include <array>
#include <vector>

namespace sgtrain::core {

struct Geometry {
  struct Step {  // out = in * scale + shift, pixels
    double scale_x = 1.0, scale_y = 1.0;
    int shift_x = 0, shift_y = 0;
  };
  int width = 0, height = 0;  // of the upright picture
  std::vector<Step> steps;    // in the order of preprocessing

  /// A point of the network input in pixels of the picture (not clipped). Single precision, as the
  /// reference implementation computes.
  void to_original(float& x, float& y) const;
  /// A box x1, y1, x2, y2 of the network input in pixels of the picture; it may leave the picture,
  /// as the reference's predictions do.
  std::array<float, 4> box_to_original(std::array<float, 4> box) const;
};

}  // namespace sgtrain::core
