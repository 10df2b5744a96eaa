#include <algorithm>

#include "losses/assigner.h"
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
    constexpr double kEps = 1e-10;
    const at::Tensor boxes = image.gt_boxes.narrow(0, first, count);
    const at::Tensor ious = tensor::pairwise_iou(boxes, image.all.anchors, kEps);
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

  AtssParams params_;
};

}  // namespace

std::unique_ptr<Assigner> make_atss_assigner(const AtssParams& params) {
  return std::make_unique<AtssAssigner>(params);
}

}  // namespace sgtrain::losses
