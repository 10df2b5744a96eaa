// COCO box scoring: AP and AR as pycocotools' COCOeval computes them (Lin et al. 2014,
// https://cocodataset.org/#detection-eval), from plain arrays, on all cores, without torch.
//
// Equal to pycocotools except for one mistake of it that is not repeated: an object whose
// annotation id is 0 is matched like any other here (there it turns its detection into a false
// positive).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sgtrain::metrics {

struct CocoCategory {
  std::int64_t id = 0;
  std::string name;
};

/// One annotated object. Box in pixels: left, top, width, height.
struct CocoObject {
  std::int64_t image = 0, category = 0;  // ids
  double x = 0, y = 0, w = 0, h = 0;
  double area = 0;     // decides the area range; COCO: area of the mask, else w * h
  bool crowd = false;  // region of many objects: detections inside are neither right nor wrong
};

struct CocoDetection {
  std::int64_t image = 0, category = 0;  // ids
  double x = 0, y = 0, w = 0, h = 0;
  double score = 0;
};

struct CocoGroundTruth {
  std::vector<std::int64_t> images;  // ids of all images, also of those without objects
  std::vector<CocoCategory> categories;
  std::vector<CocoObject> objects;
};

struct CocoAreaRange {
  std::string name;
  double low = 0, high = 1e10;  // square pixels, both ends included
};

struct CocoParams {
  std::vector<double> iou_thresholds;      // increasing, at most 16; empty: 0.50:0.05:0.95
  std::vector<double> recall_thresholds;   // increasing; empty: 0:0.01:1
  std::vector<CocoAreaRange> area_ranges;  // empty: all, small, medium, large (32², 96²)
  std::vector<int> max_detections;         // per image and category, increasing; empty: 1, 10, 100
  int threads = 0;                         // 0: all cores
};

/// Dimensions: T IoU thresholds, R recall thresholds, K categories by increasing id, A area ranges,
/// M detection limits. Entries without any object to find are -1.
struct CocoResult {
  CocoParams params;                      // with the defaults filled in
  std::vector<CocoCategory> categories;   // [K]
  std::vector<double> precision, scores;  // [T, R, K, A, M]: precision and score at each recall
  std::vector<double> recall;             // [T, K, A, M]: highest recall reached
  /// AP, AP50, AP75, AP small, medium, large, AR 1, 10, 100, AR small, medium, large; those whose
  /// threshold, range or limit the parameters lack are -1.
  std::array<double, 12> stats{};

  /// Mean precision over recalls, over the IoU thresholds (or the one nearest to `iou` when
  /// given), over one category (or all), for an area range and the highest limit; -1: no object.
  double average_precision(int category = -1, double iou = -1.0, int area = 0) const;
  /// Mean of the highest recalls, likewise, for detection limit number `limit`.
  double average_recall(int category = -1, int limit = -1, int area = 0) const;
};

/// Names of `stats`, as short as COCO's tables use them: "AP", "AP50", …, "AR_large".
const std::array<const char*, 12>& coco_stat_names();

/// Scores detections. Those of categories that the ground truth lacks are ignored, as pycocotools
/// does. Ties of scores are broken by image id, then by position in `detections`.
/// @throws InputError for detections of unknown images, no image at all, and numbers that are not
///   finite.
CocoResult evaluate_coco(const CocoGroundTruth& truth, std::span<const CocoDetection> detections,
                         const CocoParams& params = {});

}  // namespace sgtrain::metrics
