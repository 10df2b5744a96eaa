// The fill rule of the goldens: every weight and input is a function of its name, so that the
// reference implementation and this one start from the same numbers without a file of weights.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "tensor/module.h"

namespace sgtrain::support {

inline std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001B3ULL;
  return hash;
}

/// In [0, 1), a multiple of 2^-24.
inline double uniform(std::uint64_t seed, std::uint64_t k) {
  std::uint64_t z = seed + k + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) / 16777216.0;
}

/// u("input", k) of the given shape (NCHW), float32.
inline at::Tensor rule_input(at::IntArrayRef sizes, std::string_view name = "input") {
  at::Tensor out = at::empty(sizes, at::kFloat);
  auto* data = out.data_ptr<float>();
  const std::uint64_t seed = fnv1a64(name);
  for (std::int64_t k = 0; k < out.numel(); ++k) {
    data[k] = static_cast<float>(uniform(seed, static_cast<std::uint64_t>(k)));
  }
  return out;
}

/// The value of the state entry `name`, float32 as the goldens round it; undefined for entries that
/// keep what their constructor made.
inline at::Tensor rule_value(const std::string& name, const at::Tensor& like, double gain) {
  static const std::set<std::string> kept{"relative_position_index",
                                          "id_tensor",
                                          "dboxes_xy",
                                          "dboxes_wh",
                                          "scales",
                                          "img_size",
                                          "regular_matrix",
                                          "filt",
                                          "proj_conv",
                                          "anchor_points",
                                          "stride_tensor",
                                          "additive",
                                          "multiplier",
                                          "strides",
                                          "stride",
                                          "k_bias"};
  static const std::set<std::string> gains{"weight", "alpha", "gamma_1", "gamma_2"};
  const std::string last = name.substr(name.rfind('.') + 1);
  if (last == "num_batches_tracked") return at::zeros_like(like);
  if (!like.is_floating_point() || kept.count(last) > 0) return {};
  double scale = 0.2, offset = -0.1;  // bias, mean
  if (last == "running_var") {
    scale = 1.0, offset = 0.5;
  } else if (last == "running_mean") {
    // as bias
  } else if (like.dim() >= 2) {
    const double fan = static_cast<double>(like.numel() / like.size(0));
    const double bound = gain * std::sqrt(3.0 / fan);
    scale = 2.0 * bound, offset = -bound;
  } else if (gains.count(last) > 0) {
    scale = 0.5, offset = 0.75;
  }
  const bool matrix = like.dim() >= 2 && last != "running_var" && last != "running_mean";
  at::Tensor out = at::empty(like.sizes(), at::kFloat);
  auto* data = out.data_ptr<float>();
  const std::uint64_t seed = fnv1a64(name);
  for (std::int64_t k = 0; k < out.numel(); ++k) {
    const double u = uniform(seed, static_cast<std::uint64_t>(k));
    const double value = matrix ? (2.0 * u - 1.0) * (scale / 2.0) : scale * u + offset;
    data[k] = static_cast<float>(value);
  }
  return out;
}

/// Fills all parameters and persistent buffers.
inline void fill_by_rule(tensor::Module& module, double gain) {
  const at::NoGradGuard no_grad;
  for (const tensor::TensorRef& ref : module.state()) {
    const at::Tensor value = rule_value(ref.name, *ref.tensor, gain);
    if (value.defined()) ref.tensor->copy_(value);
  }
}

}  // namespace sgtrain::support
