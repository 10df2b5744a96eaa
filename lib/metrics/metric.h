// The interface of every metric, and its registry. A metric keeps a mergeable state, so that
// several processes score disjoint images and agree on the value to the last digit.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/geometry.h"
#include "core/registry.h"
#include "tensor/batch.h"

namespace sgtrain::metrics {

struct MetricValue {
  std::string name;  // "Accuracy", "mAP@0.50"
  double value = 0.0;
  bool greater_is_better = true;
};

/// One annotated object in pixels of the picture.
struct OriginalObject {
  double x = 0, y = 0, w = 0, h = 0, area = 0;
  std::int32_t label = 0;
  bool crowd = false;
};

/// A picture of the batch as it was before preprocessing.
struct OriginalImage {
  std::int64_t id = 0;  // of the annotation file, else the index in the data set
  core::Geometry geometry;
  std::vector<OriginalObject> objects;
};

/// Detections of a batch by post-prediction callback, so that metrics with the same one share them.
using SharedDetections = std::map<std::string, std::vector<at::Tensor>>;

/// What one batch gives to a metric.
struct MetricInput {
  const tensor::ModelOutput& output;
  const tensor::Targets& targets;
  std::int64_t height = 0, width = 0;        // of the network input, pixels
  const std::vector<std::int64_t>& indices;  // of the images in their data set
  /// For metrics that ask for it (wants_originals), where the way back is known; else empty.
  std::span<const OriginalImage> originals{};
  SharedDetections* shared = nullptr;
};

class Metric {
 public:
  using Registry = core::Registry<Metric>;
  static Registry& registry();

  virtual ~Metric() = default;
  /// True: scores in pixels of the pictures where it can.
  virtual bool wants_originals() const { return false; }
  virtual void reset() = 0;
  virtual void update(const MetricInput& input) = 0;
  /// Names of the values that compute() gives, known before any data is read, with direction.
  virtual std::vector<MetricValue> describe() const = 0;
  virtual std::vector<MetricValue> compute() = 0;

  /// State since reset(): CPU tensors of any shape, to be gathered over processes.
  virtual std::vector<at::Tensor> state() const = 0;
  /// Adds the state of another process. The value must not depend on the order of merging.
  virtual void merge(const std::vector<at::Tensor>& other) = 0;
};

}  // namespace sgtrain::metrics
