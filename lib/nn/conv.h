// Convolution as a function: the one place that all convolutions go through.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace sgtrain::nn {

struct ConvOptions {
  int in = 0, out = 0;
  int kernel = 1, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = true;
};

/// 2-D convolution of x [B, in, H, W] with weight [out, in / groups, k, k].
/// 1x1 kernels with stride and without padding are applied to every stride-th pixel with stride 1,
/// which is the same function: PyTorch 2.11's CPU backward of the strided form writes out of bounds
/// in channels_last below 16 input channels.
at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  const ConvOptions& options);

/// Every stride-th pixel of x, as a view; x itself for stride 1.
at::Tensor every_pixel(const at::Tensor& x, std::int64_t stride);

}  // namespace sgtrain::nn
