#include "tensor/boxes.h"

namespace sgtrain::tensor {
namespace {

struct Columns {
  at::Tensor x1, y1, x2, y2;
};

Columns columns(const at::Tensor& boxes) {
  return {boxes.select(-1, 0), boxes.select(-1, 1), boxes.select(-1, 2), boxes.select(-1, 3)};
}

at::Tensor area_of(const Columns& box) {
  return (box.x2 - box.x1).clamp_min(0) * (box.y2 - box.y1).clamp_min(0);
}

at::Tensor iou_of(const Columns& a, const Columns& b, double eps) {
  const at::Tensor width = (at::minimum(a.x2, b.x2) - at::maximum(a.x1, b.x1)).clamp_min_(0);
  const at::Tensor height = (at::minimum(a.y2, b.y2) - at::maximum(a.y1, b.y1)).clamp_min_(0);
  at::Tensor overlap = width * height;
  const at::Tensor whole = (area_of(a) + area_of(b)).sub_(overlap).add_(eps);
  return overlap.div_(whole);
}

}  // namespace

at::Tensor cxcywh_to_xyxy(const at::Tensor& boxes) {
  const at::Tensor size = boxes.narrow(-1, 2, 2);
  const at::Tensor low = boxes.narrow(-1, 0, 2) - 0.5 * size;
  return at::cat({low, low + size}, -1);
}

at::Tensor xyxy_to_cxcywh(const at::Tensor& boxes) {
  const at::Tensor low = boxes.narrow(-1, 0, 2), high = boxes.narrow(-1, 2, 2);
  return at::cat({(low + high) * 0.5, high - low}, -1);
}

at::Tensor box_area(const at::Tensor& boxes) {
  return area_of(columns(boxes));
}

at::Tensor pairwise_iou(const at::Tensor& a, const at::Tensor& b, double eps) {
  const at::NoGradGuard no_grad;
  return iou_of(columns(a.unsqueeze(1)), columns(b.unsqueeze(0)), eps);
}

at::Tensor paired_iou(const at::Tensor& a, const at::Tensor& b, double eps) {
  const at::NoGradGuard no_grad;
  return iou_of(columns(a), columns(b), eps);
}

at::Tensor paired_giou(const at::Tensor& a, const at::Tensor& b, double eps) {
  const Columns p = columns(a), q = columns(b);
  const at::Tensor width = (at::minimum(p.x2, q.x2) - at::maximum(p.x1, q.x1)).clamp_min(0);
  const at::Tensor height = (at::minimum(p.y2, q.y2) - at::maximum(p.y1, q.y1)).clamp_min(0);
  const at::Tensor overlap = width * height;
  // Sides may be negative here: clamping them would take the gradient that repairs such a box.
  const at::Tensor whole =
      (p.x2 - p.x1) * (p.y2 - p.y1) + (q.x2 - q.x1) * (q.y2 - q.y1) - overlap + eps;
  const at::Tensor hull = (at::maximum(p.x2, q.x2) - at::minimum(p.x1, q.x1)) *
                              (at::maximum(p.y2, q.y2) - at::minimum(p.y1, q.y1)) +
                          eps;
  return overlap / whole - (hull - whole) / hull;
}

}  // namespace sgtrain::tensor
