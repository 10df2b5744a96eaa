// The two convolutions of a RepVGG block, which read the same input, as one differentiable
// operation: their input gradients are summed where the first was written, and the strided 1x1
// branch reads and writes only the pixels that it uses.
#pragma once

#include <ATen/ATen.h>

#include <utility>

namespace sgtrain::nn::fused {

struct PairWeights {
  at::Tensor kernel;      // [out, in, 3, 3], padding 1, no bias
  at::Tensor point;       // [out, in, 1, 1]
  at::Tensor point_bias;  // [out] or undefined
  int stride = 1;
  bool identity = false;  // the second result gets x added; stride 1, in == out
};

/// (conv3x3(x), conv1x1(x) [+ x]), both of the caller's own: nothing else reads their memory.
std::pair<at::Tensor, at::Tensor> pair_conv(const at::Tensor& x, const PairWeights& weights);

}  // namespace sgtrain::nn::fused
