// Accuracies that are a count of right answers over a count of samples.
#pragma once

#include <string>

#include "metrics/metric.h"

namespace sgtrain::metrics {

/// Share of samples whose class is among the k highest logits. Output: "logits" [B, C]; targets:
/// labels, int64 [B] or soft [B, C] (then the class of the highest share). 0 before any sample.
class CountedAccuracy : public Metric {
 public:
  CountedAccuracy(std::string name, std::int64_t k) : name_(std::move(name)), k_(k) { reset(); }

  void reset() override;
  void update(const MetricInput& input) override;
  std::vector<MetricValue> describe() const override { return {{name_}}; }
  std::vector<MetricValue> compute() override;
  std::vector<at::Tensor> state() const override;
  void merge(const std::vector<at::Tensor>& other) override;

 private:
  std::string name_;
  std::int64_t k_;
  std::int64_t right_ = 0, all_ = 0;
};

}  // namespace sgtrain::metrics
