// Matching and averaging as SuperGradients' DetectionMetrics defines them. Numbers are float where
// the reference's are, because recalls are compared with thresholds that they hit exactly.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/detection_input.h"

namespace sgtrain::metrics {

/// One bit for each IoU threshold; at most 63.
using MatchBits = std::int64_t;

/// One detection after matching.
struct MatchedDetection {
  std::int64_t image = 0;
  std::int32_t label = 0;
  float score = 0;
  MatchBits matched = 0;  // right at these thresholds
  MatchBits ignored =
      0;  // inside a crowd, or beyond the top k of its class: neither right nor wrong
};

/// Matches the detections of one image, most confident first, each to the object of its class that
/// it overlaps most among those still free. Boxes are clipped to height × width before.
void match_detections(const DetectionImage& image, std::int64_t height, std::int64_t width,
                      std::span<const float> iou_thresholds, std::int64_t top_k,
                      std::vector<MatchedDetection>& out);

/// Values of one class; vectors have one entry for each IoU threshold.
struct ClassValues {
  std::vector<double> precision, recall, average_precision;
  std::vector<double> f1_at_score;  // mean over IoU thresholds, for each score threshold
};

struct CurveParams {
  std::size_t iou_thresholds = 1;
  std::vector<float> recall_thresholds;
  std::vector<float> score_thresholds;  // for f1_at_score
  float score_threshold = 0.1F;         // where precision and recall are read
};

/// @param detections of one class, by falling score
/// @param objects how many there are to find, at least 1
ClassValues class_values(std::span<const MatchedDetection> detections, std::int64_t objects,
                         const CurveParams& params);

}  // namespace sgtrain::metrics
