#include "postprocess/nms.h"

#include <algorithm>
#include <numeric>

namespace sgtrain::postprocess {

void keep_most_confident(std::vector<Candidate>& candidates, std::size_t k) {
  std::vector<std::uint32_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return candidates[a].score != candidates[b].score ? candidates[a].score > candidates[b].score
                                                      : a < b;
  };
  if (k < order.size()) {
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                     before);
    order.resize(k);
  }
  std::sort(order.begin(), order.end(), before);
  std::vector<Candidate> kept;
  kept.reserve(order.size());
  for (const std::uint32_t i : order) kept.push_back(candidates[i]);
  candidates = std::move(kept);
}

std::vector<std::size_t> nms(std::span<const Candidate> candidates, double iou_threshold,
                             bool class_agnostic, std::size_t max_kept) {
  struct Kept {
    tensor::Box box;
    float area;
  };
  std::int32_t labels = 1;
  if (!class_agnostic) {
    for (const Candidate& candidate : candidates) labels = std::max(labels, candidate.label + 1);
  }
  std::vector<std::vector<Kept>> kept_of(static_cast<std::size_t>(labels));
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < candidates.size() && places.size() < max_kept; ++i) {
    const tensor::Box box = candidates[i].box;
    const float area = box.area();
    auto& rivals = kept_of[class_agnostic ? 0 : static_cast<std::size_t>(candidates[i].label)];
    const bool suppressed = std::any_of(rivals.begin(), rivals.end(), [&](const Kept& rival) {
      const float shared = tensor::intersection(box, rival.box);
      return shared / (rival.area + area - shared) > iou_threshold;
    });
    if (suppressed) continue;
    rivals.push_back({box, area});
    places.push_back(i);
  }
  return places;
}

}  // namespace sgtrain::postprocess
