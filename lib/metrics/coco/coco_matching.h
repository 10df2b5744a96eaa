// Greedy matching of the detections of one image to its objects, category by category, for all
// IoU thresholds and area ranges at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "metrics/coco/coco_eval.h"

namespace sgtrain::metrics::coco {

/// Most IoU thresholds: one bit of a mask each.
inline constexpr std::size_t kMaxThresholds = 16;
using ThresholdMask = std::uint16_t;

/// An object or detection with its category as an index (into the sorted categories).
struct IndexedBox {
  double x, y, w, h;
  double value;  // objects: area; detections: score
  std::int32_t category;
  bool crowd;
};

/// What became of one detection, for each of A area ranges.
struct Outcome {
  double score;
  std::int32_t category;
  std::int32_t rank;  // place among the detections of its image and category, from 0
};

/// Outcomes of all kept detections of an image, and the objects that count.
struct ImageOutcomes {
  std::vector<Outcome> detections;     // by category, then by falling score
  std::vector<ThresholdMask> matched;  // [detections, A]: bit t: matched at threshold t
  std::vector<ThresholdMask> ignored;  // [detections, A]
  /// (category, area range) → objects to find; one row of A counts for each category with objects.
  std::vector<std::int32_t> categories;
  std::vector<std::int32_t> positives;  // [categories, A]
};

class ImageMatcher {
 public:
  explicit ImageMatcher(const CocoParams& params);

  /// `objects` in file order, `detections` in file order.
  void match(std::span<const IndexedBox> objects, std::span<const IndexedBox> detections,
             ImageOutcomes& out);

 private:
  struct Candidate {
    std::int32_t object;
    double iou;
  };
  void match_category(std::span<const std::int32_t> objects, std::span<const std::int32_t> found,
                      ImageOutcomes& out);
  void find_candidates(std::span<const std::int32_t> objects, std::span<const std::int32_t> found);
  void match_area(std::size_t area, std::span<const std::int32_t> objects,
                  std::span<const std::int32_t> found, std::size_t base, ImageOutcomes& out);

  const CocoParams& params_;
  std::vector<double> bounds_;  // IoU thresholds as the matching uses them
  std::span<const IndexedBox> all_objects_, all_detections_;
  // Work space, kept between images.
  std::vector<std::int32_t> object_order_, detection_order_;
  std::vector<double> x1_, y1_, x2_, y2_, area_;
  std::vector<Candidate> candidates_;
  std::vector<std::size_t> candidate_begin_;
  std::vector<ThresholdMask> taken_;
  std::vector<char> ignore_;
};

}  // namespace sgtrain::metrics::coco
