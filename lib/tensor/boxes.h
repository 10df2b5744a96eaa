// Boxes as tensors: formats, areas and overlaps. One home for losses, postprocess and metrics.
// A box is the last dimension, of size 4; formats are xyxy (x1, y1, x2, y2) and cxcywh (centre,
// size).
#pragma once

#include <ATen/ATen.h>

#include <algorithm>

namespace sgtrain::tensor {

at::Tensor cxcywh_to_xyxy(const at::Tensor& boxes);
at::Tensor xyxy_to_cxcywh(const at::Tensor& boxes);

/// Areas [...] of xyxy boxes [..., 4]; negative sides count as zero.
at::Tensor box_area(const at::Tensor& boxes);

/// Intersection over union of every pair of xyxy boxes: [N, 4], [M, 4] → [N, M]. Negative sides
/// count as zero; `eps` is added to each union, so that empty boxes give 0.
at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, double eps = 1e-9);

/// The same of boxes in pairs: [..., 4], [..., 4] → [...].
at::Tensor paired_iou(const at::Tensor& a, const at::Tensor& b, double eps = 1e-9);

/// Generalized IoU of boxes in pairs (Rezatofighi et al. 2019), in (-1, 1]; differentiable.
/// [N, 4], [N, 4] → [N].
at::Tensor paired_giou(const at::Tensor& a, const at::Tensor& b, double eps = 1e-10);

/// One box for loops on the CPU, same layout as a row of a contiguous [N, 4] float tensor.
struct Box {
  float x1, y1, x2, y2;
  float area() const { return (x2 - x1) * (y2 - y1); }
};

/// Area that two boxes share; 0 when they do not overlap.
inline float intersection(const Box& a, const Box& b) {
  const float w = std::max(std::min(a.x2, b.x2) - std::max(a.x1, b.x1), 0.0F);
  const float h = std::max(std::min(a.y2, b.y2) - std::max(a.y1, b.y1), 0.0F);
  return w * h;
}

/// Intersection over union; not a number for two boxes without area.
inline float iou(const Box& a, const Box& b) {
  const float shared = intersection(a, b);
  return shared / (a.area() + b.area() - shared);
}

}  // namespace sgtrain::tensor
