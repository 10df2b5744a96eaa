// Batch norm with what follows it (addition, activation, a place in a concatenation) as one
// differentiable operation: fewer passes over memory than one operation each, and fewer tensors
// kept for backward. Works on rows of channels on the CPU; everything else takes ATen's operations,
// which are also the definition that tests compare with.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "nn/activation.h"
#include "nn/layers.h"

namespace sgtrain::nn::fused {

/// Off: every operation here answers "not supported" (tests, comparisons).
void set_enabled(bool on);

/// Whether the loops can work on x: not while tracing, CPU, 4-D, not empty, float, double or
/// bfloat16, channels_last or a slice of channels of such a tensor. A layer adds its own conditions
/// (BatchNorm2d::fusable).
bool supports(const at::Tensor& x);
bool supports(Act act);  // identity, ReLU, ReLU6
/// Whether `other` can stand beside x: supported, of the same type and sizes.
bool supports_pair(const at::Tensor& x, const at::Tensor& other);

/// Where a result goes besides a tensor of its own.
struct Destination {
  at::Tensor slice;         // channels of a wider buffer; undefined: none
  bool slice_only = false;  // the result is the slice itself: no dense tensor is made
};

/// act(norm(x) + residual); `residual` may be undefined.
at::Tensor norm_act(const at::Tensor& x, const at::Tensor& residual, BatchNorm2d& norm, Act act,
                    const Destination& destination = {});

/// act(post(norm(t) + point)) [+ alpha * skip], in training: the sum of a QARepVGG block's branches
/// and what follows. Takes the memory of `point`, which nobody may read afterwards. `alpha` [1] and
/// `skip` are both defined or both undefined.
at::Tensor branches(const at::Tensor& t, const at::Tensor& point, BatchNorm2d& norm,
                    BatchNorm2d& post, Act act, const at::Tensor& alpha, const at::Tensor& skip,
                    const Destination& destination = {});

/// The buffer whose consecutive slices `parts` were written as destinations, as their
/// concatenation over channels.
at::Tensor join(const at::Tensor& buffer, const std::vector<at::Tensor>& parts);

}  // namespace sgtrain::nn::fused
