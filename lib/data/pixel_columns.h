// What the horizontal passes of resizing and warping share.
#pragma once

#include <cstdint>
#include <vector>

namespace sgtrain::data {

/// AVX2 kernels may be called.
inline const bool kHasAvx2 = __builtin_cpu_supports("avx2") > 0;

/// Two 16-bit weights side by side, as pmaddwd wants them.
inline std::int32_t weight_pair(int first, int second) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(second) << 16) |
                                   (static_cast<std::uint32_t>(first) & 0xFFFFU));
}
inline int first_weight(std::int32_t pair) {
  return static_cast<std::int16_t>(pair & 0xFFFF);
}
inline int second_weight(std::int32_t pair) {
  return pair >> 16;
}

/// Columns of a horizontal pass: where the left neighbour lies (in channels) and both weights.
struct Columns {
  std::vector<std::int32_t> offset;
  std::vector<std::int32_t> weight;
};

}  // namespace sgtrain::data
