#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "losses/assigner.h"
#include "losses/assigner_loops.h"
#include "tensor/boxes.h"

namespace sgtrain::losses {
namespace {

class AtssAssigner final : public Assigner {
 public:
  explicit AtssAssigner(const AtssParams& params) : params_(params) {}

 protected:
  ImageAssignment assign(const Image& image) const override {
    const std::int64_t anchors = image.boxes.size(0), objects = image.gt_boxes.size(0);
    AnchorOwners owners(anchors, image.boxes.options());
    const std::int64_t block = block_rows(anchors);
    for (std::int64_t first = 0; first < objects; first += block) {
      add_block(image, first, std::min(block, objects - first), owners);
    }
    ImageAssignment out{owners.owners(), {}};
    const at::Tensor own = image.gt_boxes.index_select(0, out.row.clamp_min(0));
    out.score = tensor::paired_iou(own, image.boxes);
    return out;
  }
  void assign(const ImageView<float>& image) const override { assign_by_loops(image); }
  void assign(const ImageView<double>& image) const override { assign_by_loops(image); }

 private:
  static at::Tensor centres(const at::Tensor& boxes) {
    return (boxes.narrow(1, 0, 2) + boxes.narrow(1, 2, 2)) / 2;
  }

  /// The anchors of each level whose centres are nearest: int64 [m, Σ k].
  at::Tensor nearest(const Image& image, const at::Tensor& boxes) const {
    const at::Tensor offset = centres(boxes).unsqueeze(1) - centres(image.all.anchors).unsqueeze(0);
    const at::Tensor distance = offset.norm(2, /*dim=*/-1);
    std::vector<at::Tensor> levels;
    std::int64_t first = 0;
    for (const std::int64_t count : image.all.num_anchors) {
      const auto k = std::min<std::int64_t>(params_.topk, count);
      const auto [unused, places] = distance.narrow(1, first, count).topk(k, 1, /*largest=*/false);
      levels.push_back(places + first);
      first += count;
    }
    return at::cat(levels, 1);
  }

  void add_block(const Image& image, std::int64_t first, std::int64_t count,
                 AnchorOwners& owners) const {
    const at::Tensor boxes = image.gt_boxes.narrow(0, first, count);
    const at::Tensor ious = tensor::pairwise_iou(boxes, image.all.anchors, kAnchorEps);
    const at::Tensor candidates = nearest(image, boxes);
    const at::Tensor counts = params_.sequential
                                  ? at::ones({count, 1}, boxes.options().dtype(at::kBool))
                                  : boxes.sum(1, /*keepdim=*/true) > 0;
    const at::Tensor overlap = ious.gather(1, candidates) * counts;
    // One candidate has no deviation: then none exceeds the threshold, as in the reference.
    const at::Tensor threshold =
        overlap.mean(1, /*keepdim=*/true) + overlap.std(1, /*unbiased=*/true, /*keepdim=*/true);
    const at::Tensor inside =
        points_inside(centres(image.all.anchors), boxes).gather(1, candidates);
    owners.add(first, candidates,
               at::logical_and(at::logical_and(overlap > threshold, inside), counts), ious);
  }

  /// Nearest anchors of each level, into `out`.
  template <class T>
  void nearest(const ImageView<T>& image, const LoopBox<T>& box,
               std::vector<std::pair<T, std::int64_t>>& level,
               std::vector<std::int64_t>& out) const {
    const T cx = (box.x1 + box.x2) / 2, cy = (box.y1 + box.y2) / 2;
    out.clear();
    std::int64_t first = 0;
    for (const std::int64_t count : image.levels) {
      const auto k = static_cast<std::size_t>(std::min<std::int64_t>(params_.topk, count));
      level.clear();  // the k nearest so far, nearest first
      for (std::int64_t a = first; a < first + count; ++a) {
        const auto anchor = LoopBox<T>::at(image.anchors, a);
        const T dx = cx - (anchor.x1 + anchor.x2) / 2, dy = cy - (anchor.y1 + anchor.y2) / 2;
        const T square = dx * dx + dy * dy;
        if (level.size() == k && !(square < level.back().first)) continue;
        if (level.size() == k) level.pop_back();
        const auto after = [](T value, const auto& entry) { return value < entry.first; };
        level.insert(std::upper_bound(level.begin(), level.end(), square, after), {square, a});
      }
      for (const auto& [square, a] : level) out.push_back(a);
      first += count;
    }
  }

  template <class T>
  void assign_by_loops(const ImageView<T>& image) const {
    LoopOwners<T> owners(image.num_anchors);
    std::vector<std::pair<T, std::int64_t>> level;
    std::vector<std::int64_t> candidates;
    std::vector<T> overlaps;
    for (std::int64_t g = 0; g < image.num_objects; ++g) {
      const auto box = LoopBox<T>::at(image.gt_boxes, g);
      if (!params_.sequential && !(box.x1 + box.y1 + box.x2 + box.y2 > 0)) continue;
      nearest(image, box, level, candidates);
      overlaps.clear();
      T mean = 0, squares = 0;
      for (const std::int64_t a : candidates) {
        overlaps.push_back(
            overlap_of(box, LoopBox<T>::at(image.anchors, a), static_cast<T>(kAnchorEps)));
        mean += overlaps.back();
      }
      const auto n = static_cast<T>(candidates.size());
      mean /= n;
      for (const T overlap : overlaps) squares += (overlap - mean) * (overlap - mean);
      const T threshold = mean + std::sqrt(squares / (n - 1));
      for (std::size_t i = 0; i < candidates.size(); ++i) {
        const auto anchor = LoopBox<T>::at(image.anchors, candidates[i]);
        const T x = (anchor.x1 + anchor.x2) / 2, y = (anchor.y1 + anchor.y2) / 2;
        if (overlaps[i] > threshold && contains(box, x, y)) owners.want(candidates[i], g);
      }
    }
    owners.settle(image, image.anchors, static_cast<T>(kAnchorEps));
    for (std::int64_t a = 0; a < image.num_anchors; ++a) {
      if (image.row[a] < 0) continue;
      image.score[a] = overlap_of(LoopBox<T>::at(image.gt_boxes, image.row[a]),
                                  LoopBox<T>::at(image.boxes, a), static_cast<T>(1e-9));
    }
  }

  static constexpr double kAnchorEps = 1e-10;
  AtssParams params_;
};

}  // namespace

std::unique_ptr<Assigner> make_atss_assigner(const AtssParams& params) {
  return std::make_unique<AtssAssigner>(params);
}

}  // namespace sgtrain::losses
