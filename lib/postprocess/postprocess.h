// From a network's raw output to predictions: the interface and its registry.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "core/registry.h"
#include "tensor/batch.h"

namespace sgtrain::postprocess {

/// Detections of one image: float [N, 6] rows (x1, y1, x2, y2, confidence, class), pixels of the
/// network input, most confident first.
using Detections = at::Tensor;

/// Overrides from the command line or a user (`--conf`, `--iou`, …); unset: what the recipe says.
struct Thresholds {
  std::optional<double> confidence, iou;
  std::optional<int> pre_nms_top_k, max_predictions;
  std::optional<bool> class_agnostic, multi_label;
};

/// "Post-prediction callback" in SuperGradients' words.
class DetectionPostprocess {
 public:
  using Registry = core::Registry<DetectionPostprocess>;
  static Registry& registry();

  virtual ~DetectionPostprocess() = default;
  /// One [N, 6] tensor for each image of the batch, on the CPU.
  virtual std::vector<Detections> operator()(const tensor::ModelOutput& output) const = 0;
  virtual void set(const Thresholds& thresholds) = 0;
};

}  // namespace sgtrain::postprocess
