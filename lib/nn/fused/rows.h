// Between tensors and the loops of kernels.h: row views, parallel row ranges, per-channel sums.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/fused/kernels.h"

namespace sgtrain::nn::fused {

template <class T>
inline constexpr at::ScalarType kTypeOf = at::kFloat;
template <>
inline constexpr at::ScalarType kTypeOf<double> = at::kDouble;
template <>
inline constexpr at::ScalarType kTypeOf<kernels::Bf16> = at::kBFloat16;

/// Calls f with a value of the storage type of x.
template <class F>
auto dispatch(const at::Tensor& x, const F& f) {
  switch (x.scalar_type()) {
    case at::kDouble:
      return f(double{});
    case at::kBFloat16:
      return f(kernels::Bf16{});
    default:
      return f(float{});
  }
}

/// Distance of pixels when t [B, C, H, W] is rows of channels; nullopt otherwise.
inline std::optional<std::int64_t> pixel_stride(const at::Tensor& t) {
  if (t.dim() != 4 || (t.size(1) > 1 && t.stride(1) != 1)) return std::nullopt;
  std::int64_t stride = t.size(1), pixels = 1;  // that of a single pixel
  for (const int dim : {3, 2, 0}) {
    if (t.size(dim) == 1) continue;
    if (pixels == 1) stride = t.stride(dim);
    if (t.stride(dim) != stride * pixels) return std::nullopt;
    pixels *= t.size(dim);
  }
  return stride >= t.size(1) ? std::optional(stride) : std::nullopt;
}

template <class T>
kernels::Rows<T> mutable_rows(const at::Tensor& t) {
  if (!t.defined()) return {};
  return {static_cast<T*>(t.data_ptr()), *pixel_stride(t)};
}
template <class T>
kernels::Rows<const T> rows(const at::Tensor& t) {
  if (!t.defined()) return {};
  return {static_cast<const T*>(t.const_data_ptr()), *pixel_stride(t)};
}

inline std::int64_t padded(std::int64_t channels) {
  return (channels + kernels::kLanes - 1) / kernels::kLanes * kernels::kLanes;
}

/// How rows are split: into parts that depend on the sizes alone, so that sums do not depend on the
/// number of threads, and these into blocks that stay in the cache.
struct Split {
  std::int64_t rows, parts, block;

  Split(std::int64_t rows, std::int64_t channels, std::int64_t element_size) : rows(rows) {
    constexpr std::int64_t kBlockBytes = 64 * 1024, kMostParts = 64;
    block = std::max<std::int64_t>(
        16, kBlockBytes / std::max<std::int64_t>(1, channels * element_size));
    parts = std::clamp<std::int64_t>(rows / block, 1, kMostParts);
  }

  /// f(part, begin, end) for every block of rows; parts run in parallel.
  template <class F>
  void each_block(const F& f) const {
    at::parallel_for(0, parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        const std::int64_t end = rows * (part + 1) / parts;
        for (std::int64_t begin = rows * part / parts; begin < end; begin += block) {
          f(part, begin, std::min(end, begin + block));
        }
      }
    });
  }
};

/// `count` sums per channel over all rows. body(begin, end, sums) adds those of a block to `count`
/// arrays of padded(channels), one after the other. Returns [count][channels].
template <class A, class Body>
std::vector<double> channel_sums(const Split& split, std::int64_t channels, int count,
                                 const Body& body) {
  const std::int64_t width = padded(channels) * count;
  std::vector<double> parts(static_cast<std::size_t>(split.parts * width), 0.0);
  split.each_block([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    static thread_local std::vector<A> block;
    block.assign(static_cast<std::size_t>(width), A(0));
    body(begin, end, block.data());
    double* sums = parts.data() + part * width;
    for (std::int64_t i = 0; i < width; ++i)
      sums[i] += static_cast<double>(block[static_cast<std::size_t>(i)]);
  });
  std::vector<double> out(static_cast<std::size_t>(channels * count), 0.0);
  for (std::int64_t part = 0; part < split.parts; ++part) {
    for (int k = 0; k < count; ++k) {
      const double* sums = parts.data() + part * width + k * padded(channels);
      for (std::int64_t c = 0; c < channels; ++c)
        out[static_cast<std::size_t>(k * channels + c)] += sums[c];
    }
  }
  return out;
}

/// Count, mean and sum of squared deviations per channel, mergeable (Chan et al. 1979).
struct Moments {
  double count = 0;
  std::vector<double> mean, deviations;

  explicit Moments(std::int64_t channels)
      : mean(static_cast<std::size_t>(channels), 0.0),
        deviations(static_cast<std::size_t>(channels), 0.0) {}

  template <class A>
  void merge(double other_count, const A* other_mean, const A* other_deviations) {
    if (other_count == 0) return;
    const double total = count + other_count;
    const double share = other_count / total, cross = count * share;
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double delta = static_cast<double>(other_mean[c]) - mean[c];
      mean[c] += delta * share;
      deviations[c] += static_cast<double>(other_deviations[c]) + delta * delta * cross;
    }
    count = total;
  }
};

/// Moments of x over its rows; `prepare(begin, end)` may compute a block of x just before it is
/// read.
template <class T, class Prepare>
Moments batch_moments(kernels::Rows<const T> x, const Split& split, std::int64_t channels,
                      const Prepare& prepare) {
  using A = kernels::Acc<T>;
  std::vector<Moments> parts(static_cast<std::size_t>(split.parts), Moments(channels));
  split.each_block([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    static thread_local std::vector<A> block;
    block.resize(static_cast<std::size_t>(3 * padded(channels)));
    A* mean = block.data();
    A* deviations = mean + padded(channels);
    A* rest = deviations + padded(channels);
    prepare(begin, end);
    kernels::table<T>().moments(x.from(begin), end - begin, channels, mean, deviations, rest);
    parts[static_cast<std::size_t>(part)].merge(static_cast<double>(end - begin), mean, deviations);
  });
  Moments out(channels);
  for (const Moments& part : parts) out.merge(part.count, part.mean.data(), part.deviations.data());
  return out;
}

}  // namespace sgtrain::nn::fused
