#include "losses/assigner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "core/error.h"
#include "tensor/boxes.h"

namespace sgtrain::losses {
namespace {

/// Places of the rows of `targets` sorted by image, and where each image begins.
std::vector<std::int64_t> sort_by_image(const at::Tensor& columns, std::int64_t batch_size,
                                        int num_classes, std::vector<std::int64_t>& offsets) {
  const auto rows = columns.accessor<double, 2>();
  offsets.assign(static_cast<std::size_t>(batch_size) + 1, 0);
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const double image = rows[i][0], label = rows[i][1];
    if (!(image >= 0 && image < static_cast<double>(batch_size)) || image != std::floor(image)) {
      throw core::Error("a target belongs to image " + std::to_string(image) + " of a batch of " +
                        std::to_string(batch_size));
    }
    if (!(label >= 0 && label < num_classes)) {
      throw core::Error("a target has class " + std::to_string(static_cast<long long>(label)) +
                            ", but num_classes=" + std::to_string(num_classes) + " (ids 0.." +
                            std::to_string(num_classes - 1) + ")",
                        "image " + std::to_string(static_cast<long long>(image)) + " of the batch",
                        "set num_classes of model and loss to that of the data set");
    }
    ++offsets[static_cast<std::size_t>(image) + 1];
  }
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows.size(0)));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return rows[a][0] < rows[b][0]; });
  return order;
}

}  // namespace

GroundTruth GroundTruth::from(const at::Tensor& targets, std::int64_t batch_size, int num_classes,
                              const at::TensorOptions& like) {
  const at::NoGradGuard no_grad;
  GroundTruth truth;
  at::Tensor rows = targets;
  if (!rows.defined() || rows.numel() == 0) rows = at::zeros({0, 6}, like);
  const at::Tensor columns = rows.narrow(1, 0, 2).to(at::kCPU, at::kDouble).contiguous();
  const auto order = sort_by_image(columns, batch_size, num_classes, truth.offsets);
  if (!std::is_sorted(order.begin(), order.end())) {
    rows = rows.index_select(0, at::tensor(order, at::kLong).to(rows.device()));
  }
  rows = rows.to(like.device(), rows.scalar_type());
  truth.labels = rows.select(1, 1).to(at::kLong);
  truth.boxes = tensor::cxcywh_to_xyxy(rows.narrow(1, 2, 4).to(like.dtype().toScalarType()));
  return truth;
}

Assignment Assigner::operator()(const Predictions& predictions, const GroundTruth& truth) const {
  const at::NoGradGuard no_grad;
  if (!predictions.boxes.is_cpu()) return by_tensors(predictions, truth);
  return predictions.boxes.scalar_type() == at::kDouble ? by_loops<double>(predictions, truth)
                                                        : by_loops<float>(predictions, truth);
}

template <class T>
Assignment Assigner::by_loops(const Predictions& predictions, const GroundTruth& truth) const {
  const std::int64_t images = predictions.scores.size(0), anchors = predictions.scores.size(1),
                     classes = predictions.scores.size(2);
  const auto options = predictions.boxes.options().requires_grad(false);
  Assignment out{at::full({images, anchors}, -1, options.dtype(at::kLong)),
                 at::zeros({images, anchors}, options)};
  const at::Tensor scores = predictions.scores.contiguous(), boxes = predictions.boxes.contiguous(),
                   corners = predictions.anchors.contiguous(),
                   points = predictions.anchor_points.contiguous(),
                   gt_boxes = truth.boxes.contiguous(), gt_labels = truth.labels.contiguous();
  auto* const rows = out.row.data_ptr<std::int64_t>();
  at::parallel_for(0, images, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = truth.offsets[static_cast<std::size_t>(b)];
      const std::int64_t count = truth.offsets[static_cast<std::size_t>(b) + 1] - first;
      if (count == 0) continue;
      const ImageView<T> image{scores.data_ptr<T>() + b * anchors * classes,
                               boxes.data_ptr<T>() + b * anchors * 4,
                               corners.data_ptr<T>(),
                               points.data_ptr<T>(),
                               gt_boxes.data_ptr<T>() + first * 4,
                               gt_labels.data_ptr<std::int64_t>() + first,
                               anchors,
                               classes,
                               count,
                               predictions.num_anchors,
                               rows + b * anchors,
                               out.score.data_ptr<T>() + b * anchors};
      assign(image);
      for (std::int64_t a = 0; a < anchors; ++a) {
        if (image.row[a] >= 0) image.row[a] += first;
      }
    }
  });
  return out;
}

Assignment Assigner::by_tensors(const Predictions& predictions, const GroundTruth& truth) const {
  const at::NoGradGuard no_grad;
  const std::int64_t images = predictions.scores.size(0), anchors = predictions.scores.size(1);
  const auto options = predictions.boxes.options().requires_grad(false);
  Assignment out{at::full({images, anchors}, -1, options.dtype(at::kLong)),
                 at::zeros({images, anchors}, options)};
  for (std::int64_t b = 0; b < images; ++b) {
    const std::int64_t first = truth.offsets[static_cast<std::size_t>(b)];
    const std::int64_t count = truth.offsets[static_cast<std::size_t>(b) + 1] - first;
    if (count == 0) continue;
    const ImageAssignment own = assign(Image{predictions.scores[b], predictions.boxes[b],
                                             truth.boxes.narrow(0, first, count),
                                             truth.labels.narrow(0, first, count), predictions});
    const at::Tensor positive = own.row >= 0;
    out.row[b].copy_(at::where(positive, own.row + first, -1));
    out.score[b].copy_(at::where(positive, own.score, 0));
  }
  return out;
}

std::int64_t Assigner::block_rows(std::int64_t anchors) {
  constexpr std::int64_t kElements = 1 << 20;
  return std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, anchors));
}

AnchorOwners::AnchorOwners(std::int64_t anchors, const at::TensorOptions& like)
    : wanted_by_(at::zeros({anchors}, like.dtype(at::kLong))),
      last_(at::full({anchors}, -1, like.dtype(at::kLong))),
      best_iou_(at::full({anchors}, -1.0, like)),
      best_(at::zeros({anchors}, like.dtype(at::kLong))) {}

void AnchorOwners::add(std::int64_t first, const at::Tensor& candidates, const at::Tensor& wanted,
                       const at::Tensor& ious) {
  const std::int64_t count = candidates.size(0);
  const at::Tensor anchors = candidates.flatten(), flags = wanted.flatten();
  wanted_by_.scatter_add_(0, anchors, flags.to(at::kLong));
  const at::Tensor rows =
      at::arange(first, first + count, best_.options()).unsqueeze(1).expand_as(candidates);
  last_.scatter_reduce_(0, anchors, at::where(flags, rows.flatten(), -1), "amax");
  const auto [highest, row] = ious.max(0);
  // Strictly better only: of equal overlaps the first object keeps the anchor.
  const at::Tensor better = highest > best_iou_;
  best_iou_ = at::where(better, highest, best_iou_);
  best_ = at::where(better, row + first, best_);
}

at::Tensor AnchorOwners::owners() const {
  return at::where(wanted_by_ > 1, best_, last_);
}

at::Tensor points_inside(const at::Tensor& points, const at::Tensor& boxes) {
  constexpr double kEps = 1e-9;
  const at::Tensor x = points.select(1, 0).unsqueeze(0), y = points.select(1, 1).unsqueeze(0);
  const auto side = [&](std::int64_t i) { return boxes.narrow(1, i, 1); };
  const at::Tensor horizontal = at::minimum(x - side(0), side(2) - x);
  const at::Tensor vertical = at::minimum(y - side(1), side(3) - y);
  return at::minimum(horizontal, vertical) > kEps;
}

}  // namespace sgtrain::losses
