// The interface of every metric, and its registry. A metric keeps a mergeable state, so that
// several processes score disjoint images and agree on the value to the last digit.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/registry.h"
#include "tensor/batch.h"

namespace sgtrain::metrics {

struct MetricValue {
  std::string name;  // "Accuracy", "mAP@0.50"
  double value = 0.0;
  bool greater_is_better = true;
};

/// What one batch gives to a metric.
struct MetricInput {
  const tensor::ModelOutput& output;
  const tensor::Targets& targets;
  std::int64_t height = 0, width = 0;        // of the network input, pixels
  const std::vector<std::int64_t>& indices;  // of the images in their data set
};

class Metric {
 public:
  using Registry = core::Registry<Metric>;
  static Registry& registry();

  virtual ~Metric() = default;
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
