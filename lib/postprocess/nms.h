// Greedy non-maximum suppression on the CPU.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "tensor/boxes.h"

namespace sgtrain::postprocess {

struct Candidate {
  tensor::Box box;  // xyxy pixels
  float score = 0;
  std::int32_t label = 0;
};

/// Keeps at most `k` candidates, the most confident first; of equal scores the earlier one.
void keep_most_confident(std::vector<Candidate>& candidates, std::size_t k);

/// Places of the kept candidates, most confident first. A candidate goes when a kept one of the
/// same label (any label when `class_agnostic`) overlaps it by more than `iou_threshold`. Classes
/// are compared by label, not by moving their boxes apart, so that boxes outside the image never
/// meet those of another class. Stops at `max_kept`, so the time is bounded by candidates ×
/// max_kept.
/// @param candidates sorted by falling score
std::vector<std::size_t> nms(std::span<const Candidate> candidates, double iou_threshold,
                             bool class_agnostic = false,
                             std::size_t max_kept = std::numeric_limits<std::size_t>::max());

}  // namespace sgtrain::postprocess
