#include "metrics/coco/coco_matching.h"

#include <algorithm>
#include <numeric>

namespace sgtrain::metrics::coco {

ImageMatcher::ImageMatcher(const CocoParams& params) : params_(params) {
  for (const double threshold : params.iou_thresholds) {
    bounds_.push_back(std::min(threshold, 1.0 - 1e-10));
  }
}

void ImageMatcher::match(std::span<const IndexedBox> objects,
                         std::span<const IndexedBox> detections, ImageOutcomes& out) {
  all_objects_ = objects;
  all_detections_ = detections;
  object_order_.resize(objects.size());
  std::iota(object_order_.begin(), object_order_.end(), 0);
  std::stable_sort(object_order_.begin(), object_order_.end(), [&](int a, int b) {
    return objects[static_cast<std::size_t>(a)].category <
           objects[static_cast<std::size_t>(b)].category;
  });
  detection_order_.resize(detections.size());
  std::iota(detection_order_.begin(), detection_order_.end(), 0);
  std::sort(detection_order_.begin(), detection_order_.end(), [&](int a, int b) {
    const IndexedBox& left = detections[static_cast<std::size_t>(a)];
    const IndexedBox& right = detections[static_cast<std::size_t>(b)];
    if (left.category != right.category) return left.category < right.category;
    if (left.value != right.value) return left.value > right.value;
    return a < b;
  });
  const auto category_of = [](std::span<const IndexedBox> boxes,
                              const std::vector<std::int32_t>& order, std::size_t i) {
    return boxes[static_cast<std::size_t>(order[i])].category;
  };
  std::size_t g = 0, d = 0;
  while (g < objects.size() || d < detections.size()) {
    std::int32_t category = g < objects.size() ? category_of(objects, object_order_, g) : INT32_MAX;
    if (d < detections.size()) {
      category = std::min(category, category_of(detections, detection_order_, d));
    }
    const std::size_t first_g = g, first_d = d;
    while (g < objects.size() && category_of(objects, object_order_, g) == category) ++g;
    while (d < detections.size() && category_of(detections, detection_order_, d) == category) ++d;
    const auto limit = static_cast<std::size_t>(params_.max_detections.back());
    match_category(std::span(object_order_).subspan(first_g, g - first_g),
                   std::span(detection_order_).subspan(first_d, std::min(d - first_d, limit)), out);
  }
}

void ImageMatcher::match_category(std::span<const std::int32_t> objects,
                                  std::span<const std::int32_t> found, ImageOutcomes& out) {
  const std::size_t areas = params_.area_ranges.size();
  const std::size_t base = out.detections.size();
  for (std::size_t i = 0; i < found.size(); ++i) {
    const IndexedBox& box = all_detections_[static_cast<std::size_t>(found[i])];
    out.detections.push_back({box.value, box.category, static_cast<std::int32_t>(i)});
  }
  out.matched.resize(out.detections.size() * areas, 0);
  out.ignored.resize(out.detections.size() * areas, 0);
  if (!objects.empty()) {
    out.categories.push_back(all_objects_[static_cast<std::size_t>(objects[0])].category);
    out.positives.resize(out.categories.size() * areas, 0);
  }
  find_candidates(objects, found);
  for (std::size_t area = 0; area < areas; ++area) match_area(area, objects, found, base, out);
}

/// For each detection the objects that it overlaps by the lowest threshold or more, in file order.
void ImageMatcher::find_candidates(std::span<const std::int32_t> objects,
                                   std::span<const std::int32_t> found) {
  const std::size_t n = objects.size();
  for (auto* column : {&x1_, &y1_, &x2_, &y2_, &area_}) column->resize(n);
  for (std::size_t j = 0; j < n; ++j) {
    const IndexedBox& box = all_objects_[static_cast<std::size_t>(objects[j])];
    x1_[j] = box.x;
    y1_[j] = box.y;
    x2_[j] = box.w + box.x;
    y2_[j] = box.h + box.y;
    area_[j] = box.w * box.h;
  }
  candidates_.clear();
  candidate_begin_.assign(1, 0);
  for (const std::int32_t index : found) {
    const IndexedBox& box = all_detections_[static_cast<std::size_t>(index)];
    const double x2 = box.w + box.x, y2 = box.h + box.y, own_area = box.w * box.h;
    for (std::size_t j = 0; j < n; ++j) {
      const double w = std::min(x2, x2_[j]) - std::max(box.x, x1_[j]);
      const double h = std::min(y2, y2_[j]) - std::max(box.y, y1_[j]);
      if (w <= 0 || h <= 0) continue;
      const double shared = w * h;
      const bool crowd = all_objects_[static_cast<std::size_t>(objects[j])].crowd;
      const double whole = crowd ? own_area : own_area + area_[j] - shared;
      const double iou = shared / whole;
      if (iou >= bounds_.front()) candidates_.push_back({static_cast<std::int32_t>(j), iou});
    }
    candidate_begin_.push_back(candidates_.size());
  }
}

void ImageMatcher::match_area(std::size_t area, std::span<const std::int32_t> objects,
                              std::span<const std::int32_t> found, std::size_t base,
                              ImageOutcomes& out) {
  const CocoAreaRange& range = params_.area_ranges[area];
  const std::size_t areas = params_.area_ranges.size();
  ignore_.resize(objects.size());
  taken_.assign(objects.size(), 0);
  for (std::size_t j = 0; j < objects.size(); ++j) {
    const IndexedBox& box = all_objects_[static_cast<std::size_t>(objects[j])];
    ignore_[j] = box.crowd || box.value < range.low || box.value > range.high;
    if (!ignore_[j]) ++out.positives[(out.categories.size() - 1) * areas + area];
  }
  const auto all_thresholds = static_cast<ThresholdMask>((1u << bounds_.size()) - 1);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::span<const Candidate> candidates(candidates_.data() + candidate_begin_[i],
                                                candidates_.data() + candidate_begin_[i + 1]);
    ThresholdMask matched = 0, ignored = 0;
    if (candidates.size() == 1) {  // no choice: all thresholds at once
      const auto j = static_cast<std::size_t>(candidates[0].object);
      const auto reached =
          std::upper_bound(bounds_.begin(), bounds_.end(), candidates[0].iou) - bounds_.begin();
      const bool crowd = all_objects_[static_cast<std::size_t>(objects[j])].crowd;
      matched = static_cast<ThresholdMask>(((1u << reached) - 1) & ~(crowd ? 0u : taken_[j]));
      ignored = ignore_[j] ? matched : ThresholdMask(0);
      taken_[j] |= matched;
    }
    for (std::size_t t = 0; t < bounds_.size() && candidates.size() > 1; ++t) {
      const auto bit = static_cast<ThresholdMask>(1u << t);
      // An object that counts is preferred to any that is ignored; of equal IoUs the last wins.
      std::int32_t best = -1;
      for (const char want_ignored : {0, 1}) {
        double best_iou = bounds_[t];
        for (const Candidate& candidate : candidates) {
          const auto j = static_cast<std::size_t>(candidate.object);
          if (ignore_[j] != want_ignored || candidate.iou < best_iou) continue;
          const bool crowd = all_objects_[static_cast<std::size_t>(objects[j])].crowd;
          if ((taken_[j] & bit) != 0 && !crowd) continue;
          best = candidate.object;
          best_iou = candidate.iou;
        }
        if (best >= 0) break;
      }
      if (best < 0) continue;
      matched |= bit;
      if (ignore_[static_cast<std::size_t>(best)]) ignored |= bit;
      taken_[static_cast<std::size_t>(best)] |= bit;
    }
    const IndexedBox& box = all_detections_[static_cast<std::size_t>(found[i])];
    const double own_area = box.w * box.h;
    if (own_area < range.low || own_area > range.high) {
      ignored |= static_cast<ThresholdMask>(~matched & all_thresholds);
    }
    out.matched[(base + i) * areas + area] = matched;
    out.ignored[(base + i) * areas + area] = ignored;
  }
}

}  // namespace sgtrain::metrics::coco
