#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "losses/assigner.h"
#include "losses/assigner_loops.h"
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
  void assign(const ImageView<float>& image) const override { assign_by_loops(image); }
  void assign(const ImageView<double>& image) const override { assign_by_loops(image); }

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

  template <class T>
  T metric_of(T score, T overlap) const {
    const T weighted =
        params_.alpha == 1.0 ? score : std::pow(score, static_cast<T>(params_.alpha));
    return weighted * std::pow(overlap, static_cast<T>(params_.beta));
  }

  template <class T>
  void assign_by_loops(const ImageView<T>& image) const {
    using Wish = std::pair<T, std::int64_t>;  // metric, anchor
    LoopOwners<T> owners(image.num_anchors);
    std::vector<Wish> wishes;
    std::vector<std::int64_t> inside(static_cast<std::size_t>(image.num_anchors));
    for (std::int64_t g = 0; g < image.num_objects; ++g) {
      const auto box = LoopBox<T>::at(image.gt_boxes, g);
      if (!params_.sequential && !(box.x1 + box.y1 + box.x2 + box.y2 > 0)) continue;
      wishes.clear();
      const std::int64_t count = collect_inside(image, box, inside);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t anchor = inside[static_cast<std::size_t>(i)];
        const T overlap =
            overlap_of(box, LoopBox<T>::at(image.boxes, anchor), static_cast<T>(kIouEps));
        const T metric =
            metric_of(image.scores[anchor * image.num_classes + image.gt_labels[g]], overlap);
        if (metric > 0) wishes.emplace_back(metric, anchor);
      }
      const auto better = [](const Wish& a, const Wish& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
      };
      const auto kept = std::min(wishes.size(), static_cast<std::size_t>(params_.topk));
      std::partial_sort(wishes.begin(), wishes.begin() + static_cast<std::ptrdiff_t>(kept),
                        wishes.end(), better);
      if (kept == 0 || (params_.sequential && !(wishes[0].first > static_cast<T>(params_.eps))))
        continue;
      for (std::size_t i = 0; i < kept; ++i) owners.want(wishes[i].second, g);
    }
    owners.settle(image, image.boxes, static_cast<T>(kIouEps));
    set_scores(image);
  }

  /// As anchor_scores, in place.
  template <class T>
  void set_scores(const ImageView<T>& image) const {
    const auto objects = static_cast<std::size_t>(image.num_objects);
    std::vector<T> best_metric(objects, 0), best_overlap(objects, 0);
    std::vector<T> metrics(static_cast<std::size_t>(image.num_anchors), 0);
    for (std::int64_t a = 0; a < image.num_anchors; ++a) {
      const std::int64_t g = image.row[a];
      if (g < 0) continue;
      const T overlap = overlap_of(LoopBox<T>::at(image.gt_boxes, g),
                                   LoopBox<T>::at(image.boxes, a), static_cast<T>(kIouEps));
      T& metric = metrics[static_cast<std::size_t>(a)];
      metric = metric_of(image.scores[a * image.num_classes + image.gt_labels[g]], overlap);
      best_metric[static_cast<std::size_t>(g)] =
          std::max(best_metric[static_cast<std::size_t>(g)], metric);
      best_overlap[static_cast<std::size_t>(g)] =
          std::max(best_overlap[static_cast<std::size_t>(g)], overlap);
    }
    for (std::int64_t a = 0; a < image.num_anchors; ++a) {
      if (image.row[a] < 0) continue;
      const auto g = static_cast<std::size_t>(image.row[a]);
      image.score[a] = metrics[static_cast<std::size_t>(a)] /
                       (best_metric[g] + static_cast<T>(params_.eps)) * best_overlap[g];
    }
  }

  static constexpr double kIouEps = 1e-9;
  TaskAlignedParams params_;
};

}  // namespace

std::unique_ptr<Assigner> make_task_aligned_assigner(const TaskAlignedParams& params) {
  return std::make_unique<TaskAlignedAssigner>(params);
}

}  // namespace sgtrain::losses
