// The affine map from bytes to network input that the tail of a transform list describes. It is not
// applied to images on the CPU: batches leave the loader as bytes and are normalised on the device
// (loader/normalise.h).
#pragma once

#include <array>
#include <span>

#include "core/error.h"

namespace sgtrain::data {

/// Network input of channel c = (pixel - mean[c]) / std[c], pixel in 0..255, channels in the order
/// in which they lie in the batch.
struct Normalisation {
  std::array<double, 3> mean{0.0, 0.0, 0.0};
  std::array<double, 3> std{1.0, 1.0, 1.0};

  /// Then divides by `max_value` (ToTensor, DetectionStandardize: 255).
  void divide(double max_value) {
    for (double& s : std) s *= max_value;
  }
  /// Then (value - m) / s; one value for all channels or one for each.
  void normalise(std::span<const double> m, std::span<const double> s) {
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] += std[c] * m[m.size() == 1 ? 0 : c];
      std[c] *= s[s.size() == 1 ? 0 : c];
    }
  }
  /// The pixel (not rounded, not clipped) whose network input is `value`.
  double to_pixel(std::size_t channel, double value) const {
    return value * std[channel] + mean[channel];
  }
  bool is_identity() const { return *this == Normalisation{}; }
  bool operator==(const Normalisation&) const = default;
};

}  // namespace sgtrain::data
