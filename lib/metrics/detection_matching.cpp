#include "metrics/detection_matching.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sgtrain::metrics {
namespace {

struct Overlap {
  std::size_t object;
  float iou;
};

tensor::Box clipped(tensor::Box box, std::int64_t height, std::int64_t width) {
  const auto w = static_cast<float>(width), h = static_cast<float>(height);
  return {std::clamp(box.x1, 0.0F, w), std::clamp(box.y1, 0.0F, h), std::clamp(box.x2, 0.0F, w),
          std::clamp(box.y2, 0.0F, h)};
}

MatchBits bits_above(float value, std::span<const float> thresholds) {
  MatchBits bits = 0;
  for (std::size_t t = 0; t < thresholds.size(); ++t) {
    if (value > thresholds[t]) bits |= MatchBits{1} << t;
  }
  return bits;
}

/// Objects of the detection's class that it overlaps, best first.
std::vector<Overlap> overlaps_of(const tensor::Box& box, std::int32_t label,
                                 const std::vector<LabelledBox>& objects, float above) {
  std::vector<Overlap> out;
  for (std::size_t j = 0; j < objects.size(); ++j) {
    if (objects[j].label != label) continue;
    const float iou = tensor::iou(box, objects[j].box);
    if (iou > above) out.push_back({j, iou});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Overlap& a, const Overlap& b) { return a.iou > b.iou; });
  return out;
}

/// Largest share of the detection that lies in a crowd region of its class.
float crowd_share(const tensor::Box& box, std::int32_t label,
                  const std::vector<LabelledBox>& crowds) {
  float best = 0;
  for (const LabelledBox& crowd : crowds) {
    if (crowd.label == label)
      best = std::max(best, tensor::intersection(box, crowd.box) / box.area());
  }
  return best;
}

}  // namespace

void match_detections(const DetectionImage& image, std::int64_t height, std::int64_t width,
                      std::span<const float> iou_thresholds, std::int64_t top_k,
                      std::vector<MatchedDetection>& out) {
  const auto rows = image.detections.accessor<float, 2>();
  const auto count = static_cast<std::size_t>(rows.size(0));
  const std::size_t first = out.size();
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return rows[a][4] > rows[b][4]; });
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = rows[static_cast<std::int64_t>(i)];
    out.push_back({image.index, static_cast<std::int32_t>(row[5]), row[4], 0, 0});
  }
  const auto all = static_cast<MatchBits>((std::uint64_t{1} << iou_thresholds.size()) - 1);
  std::vector<MatchBits> taken(image.objects.size(), 0);
  std::vector<std::int64_t> used;  // detections of each class so far
  for (const std::int64_t i : order) {
    MatchedDetection& detection = out[first + static_cast<std::size_t>(i)];
    const auto label = static_cast<std::size_t>(std::max(detection.label, 0));
    if (label >= used.size()) used.resize(label + 1, 0);
    if (used[label]++ >= top_k || detection.score == 0) {
      detection.ignored = all;
      continue;
    }
    const tensor::Box box =
        clipped({rows[i][0], rows[i][1], rows[i][2], rows[i][3]}, height, width);
    for (const Overlap& overlap :
         overlaps_of(box, detection.label, image.objects, iou_thresholds[0])) {
      const MatchBits free = ~(detection.matched | taken[overlap.object]);
      const MatchBits now = bits_above(overlap.iou, iou_thresholds) & free;
      detection.matched |= now;
      taken[overlap.object] |= now;
    }
    detection.ignored = bits_above(crowd_share(box, detection.label, image.crowds), iou_thresholds);
  }
}

namespace {

/// Precision (made monotone) and recall after each detection, at one IoU threshold.
struct Curve {
  std::vector<float> precision, recall;
};

Curve curve_of(std::span<const MatchedDetection> detections, std::int64_t objects,
               std::size_t threshold) {
  Curve curve;
  curve.precision.reserve(detections.size());
  curve.recall.reserve(detections.size());
  float right = 0, wrong = 0;
  for (const MatchedDetection& detection : detections) {
    const bool matched = (detection.matched >> threshold & 1) != 0;
    if (matched) right += 1;
    if (!matched && (detection.ignored >> threshold & 1) == 0) wrong += 1;
    curve.recall.push_back(right / static_cast<float>(objects));
    curve.precision.push_back(
        right / (right + wrong + static_cast<float>(std::numeric_limits<double>::epsilon())));
  }
  for (std::size_t i = curve.precision.size(); i-- > 1;) {
    curve.precision[i - 1] = std::max(curve.precision[i - 1], curve.precision[i]);
  }
  return curve;
}

/// How many detections have the score or more; scores fall.
std::size_t count_from(std::span<const MatchedDetection> detections, float score) {
  const auto end =
      std::partition_point(detections.begin(), detections.end(),
                           [&](const MatchedDetection& d) { return d.score >= score; });
  return static_cast<std::size_t>(end - detections.begin());
}

double f1(double precision, double recall) {
  return 2 * precision * recall / (precision + recall + 1e-16);
}

}  // namespace

ClassValues class_values(std::span<const MatchedDetection> detections, std::int64_t objects,
                         const CurveParams& params) {
  ClassValues out;
  const std::size_t thresholds = params.iou_thresholds;
  out.precision.assign(thresholds, 0);
  out.recall.assign(thresholds, 0);
  out.average_precision.assign(thresholds, 0);
  out.f1_at_score.assign(params.score_thresholds.size(), 0);
  if (detections.empty()) return out;
  const std::size_t at_threshold = count_from(detections, params.score_threshold);
  std::vector<std::size_t> counts;
  for (const float score : params.score_thresholds) counts.push_back(count_from(detections, score));
  for (std::size_t t = 0; t < thresholds; ++t) {
    const Curve curve = curve_of(detections, objects, t);
    if (at_threshold > 0) {
      out.precision[t] = curve.precision[at_threshold - 1];
      out.recall[t] = curve.recall[at_threshold - 1];
    }
    double sum = 0;
    for (const float recall : params.recall_thresholds) {
      const auto place = std::lower_bound(curve.recall.begin(), curve.recall.end(), recall);
      if (place != curve.recall.end())
        sum += curve.precision[static_cast<std::size_t>(place - curve.recall.begin())];
    }
    out.average_precision[t] = sum / static_cast<double>(params.recall_thresholds.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
      if (counts[s] == 0) continue;
      out.f1_at_score[s] += f1(curve.precision[counts[s] - 1], curve.recall[counts[s] - 1]) /
                            static_cast<double>(thresholds);
    }
  }
  return out;
}

}  // namespace sgtrain::metrics
