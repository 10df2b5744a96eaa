#include "metrics/counted_accuracy.h"

#include <algorithm>

#include "core/error.h"

namespace sgtrain::metrics {

void CountedAccuracy::reset() {
  right_ = all_ = 0;
}

void CountedAccuracy::update(const MetricInput& input) {
  const at::NoGradGuard no_grad;
  const at::Tensor logits = input.output["logits"].detach();
  at::Tensor target = input.targets.labels;
  if (!target.defined() || logits.dim() != 2) {
    throw core::Error(name_ + " needs logits [B, C] and labels", {}, "use it for classification");
  }
  if (target.dim() == 2) target = target.argmax(1);
  target = target.to(logits.device(), at::kLong);
  const std::int64_t k = std::min(k_, logits.size(1));
  const at::Tensor best =
      k == 1 ? logits.argmax(1, /*keepdim=*/true) : std::get<1>(logits.topk(k, 1));
  right_ += (best == target.unsqueeze(1)).sum().item<std::int64_t>();
  all_ += target.size(0);
}

std::vector<MetricValue> CountedAccuracy::compute() {
  const double value = all_ == 0 ? 0.0 : static_cast<double>(right_) / static_cast<double>(all_);
  return {{name_, value}};
}

std::vector<at::Tensor> CountedAccuracy::state() const {
  return {at::tensor({right_, all_}, at::kLong)};
}

void CountedAccuracy::merge(const std::vector<at::Tensor>& other) {
  right_ += other.at(0)[0].item<std::int64_t>();
  all_ += other.at(0)[1].item<std::int64_t>();
}

}  // namespace sgtrain::metrics
