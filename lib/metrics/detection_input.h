// What the detection metrics share: reading a batch's objects and its detections.
#pragma once

#include <string>
#include <vector>

#include "core/registry.h"
#include "metrics/metric.h"
#include "postprocess/postprocess.h"
#include "tensor/boxes.h"

namespace sgtrain::metrics {

struct LabelledBox {
  tensor::Box box;  // xyxy pixels of the network input
  std::int32_t label = 0;
};

/// One image of a batch.
struct DetectionImage {
  std::int64_t index = 0;  // in its data set
  at::Tensor detections;   // float [N, 6] on the CPU: x1, y1, x2, y2, confidence, class
  std::vector<LabelledBox> objects, crowds;
  const OriginalImage* original = nullptr;  // where MetricInput has it
};

/// Parameters that every detection metric reads.
struct DetectionMetricParams {
  int num_classes = 0;
  postprocess::DetectionPostprocess::Registry::MakerType post_prediction_callback;
  std::string callback_key;  // equal texts: equal callbacks
  /// False: boxes may also come as fractions of the image; those are scaled. Batches whose boxes
  /// are pixels, as the loader delivers them, are recognised and left alone either way.
  bool normalize_targets = false;
  std::vector<std::string> class_names;  // empty when not given

  static DetectionMetricParams from(core::Node& n);
  /// Given names, else class_0, class_1, …
  std::vector<std::string> names() const;
};

/// Splits a batch into images, runs the post-prediction callback and checks classes.
class DetectionReader {
 public:
  explicit DetectionReader(const DetectionMetricParams& params)
      : num_classes_(params.num_classes),
        normalize_targets_(params.normalize_targets),
        callback_key_(params.callback_key),
        callback_(params.post_prediction_callback()) {}

  /// @throws Error for a class outside [0, num_classes).
  std::vector<DetectionImage> read(const MetricInput& input) const;

 private:
  std::vector<at::Tensor> detect(const MetricInput& input) const;

  int num_classes_;
  bool normalize_targets_;
  std::string callback_key_;
  std::unique_ptr<postprocess::DetectionPostprocess> callback_;
};

}  // namespace sgtrain::metrics
