#include <algorithm>

#include "losses/assigner.h"
#include "tensor/boxes.h"

namespace sgtrain::losses {
namespace {

class TaskAlignedAssigner final : public Assigner {
 public:
  explicit TaskAlignedAssigner(const TaskAlignedParams& params) : params_(params) {}

 protected:
  ImageAssignment assign(const Image& image) const override {
    const std::int64_t anchors = image.boxes.size(0), objects = image.gt_boxes.size(0);
    AnchorOwners owners(anchors, image.boxes.options());
    const at::Tensor scores = image.scores.t();
    const std::int64_t block = block_rows(anchors);
    for (std::int64_t first = 0; first < objects; first += block) {
      const std::int64_t count = std::min(block, objects - first);
      add_block(image, scores, first, count, owners);
    }
    ImageAssignment out{owners.owners(), {}};
    out.score = anchor_scores(image, out.row);
    return out;
  }

 private:
  at::Tensor metric(const at::Tensor& scores, const at::Tensor& ious) const {
    const at::Tensor weighted = params_.alpha == 1.0 ? scores : scores.pow(params_.alpha);
    return weighted * ious.pow(params_.beta);
  }

  void add_block(const Image& image, const at::Tensor& scores, std::int64_t first,
                 std::int64_t count, AnchorOwners& owners) const {
    const at::Tensor boxes = image.gt_boxes.narrow(0, first, count);
    const at::Tensor ious = tensor::pairwise_iou(boxes, image.boxes);
    const at::Tensor inside = points_inside(image.all.anchor_points, boxes);
    const at::Tensor class_scores = scores.index_select(0, image.gt_labels.narrow(0, first, count));
    const at::Tensor metrics = metric(class_scores, ious).mul_(inside);
    const auto [best, candidates] =
        metrics.topk(std::min<std::int64_t>(params_.topk, metrics.size(1)), 1);
    const at::Tensor counts = params_.sequential ? best.amax(1, /*keepdim=*/true) > params_.eps
                                                 : boxes.sum(1, /*keepdim=*/true) > 0;
    owners.add(first, candidates, at::logical_and(inside.gather(1, candidates), counts), ious);
  }

  /// Each anchor's metric relative to the best of its object, times the best overlap of the object.
  at::Tensor anchor_scores(const Image& image, const at::Tensor& row) const {
    const at::Tensor positive = row >= 0, own = row.clamp_min(0);
    const at::Tensor ious =
        tensor::paired_iou(image.gt_boxes.index_select(0, own), image.boxes).mul_(positive);
    const at::Tensor labels = image.gt_labels.index_select(0, own).unsqueeze(1);
    const at::Tensor metrics =
        metric(image.scores.gather(1, labels).squeeze(1), ious).mul_(positive);
    const at::Tensor zeros = at::zeros({image.gt_boxes.size(0)}, metrics.options());
    const at::Tensor best_metric = zeros.scatter_reduce(0, own, metrics, "amax");
    const at::Tensor best_iou = zeros.scatter_reduce(0, own, ious, "amax");
    return metrics / (best_metric.index_select(0, own) + params_.eps) *
           best_iou.index_select(0, own);
  }

  TaskAlignedParams params_;
};

}  // namespace

std::unique_ptr<Assigner> make_task_aligned_assigner(const TaskAlignedParams& params) {
  return std::make_unique<TaskAlignedAssigner>(params);
}

}  // namespace sgtrain::losses
