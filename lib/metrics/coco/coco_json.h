// Reading COCO's JSON files for scoring: ground truth ("instances") and results.
#pragma once

#include <filesystem>
#include <vector>

#include "metrics/coco/coco_eval.h"

namespace sgtrain::metrics {

/// Reads images, categories and annotations. `iscrowd` (default 0) and `area` (default w * h) may
/// be absent; masks and all other fields are skipped.
/// @throws InputError naming file and entry for what cannot be read.
CocoGroundTruth read_coco_ground_truth(const std::filesystem::path& file);

/// Reads a results file: a list of {"image_id", "category_id", "bbox": [x, y, w, h], "score"}.
/// @throws InputError as above.
std::vector<CocoDetection> read_coco_results(const std::filesystem::path& file);

}  // namespace sgtrain::metrics
