#include "losses/distribution_focal.h"

namespace sgtrain::losses {

at::Tensor expected_distances(const at::Tensor& distribution, std::int64_t bins) {
  auto sizes = distribution.sizes().vec();
  sizes.back() = 4;
  sizes.push_back(bins);
  const at::Tensor distances = at::arange(bins, distribution.options().requires_grad(false));
  return at::matmul(distribution.reshape(sizes).softmax(-1), distances);
}

at::Tensor boxes_from_distances(const at::Tensor& points, const at::Tensor& distances) {
  return at::cat({points - distances.narrow(-1, 0, 2), points + distances.narrow(-1, 2, 2)}, -1);
}

at::Tensor distribution_focal(const at::Tensor& log_probabilities, const at::Tensor& targets) {
  const at::Tensor left = targets.floor();
  const at::Tensor right_weight = targets - left;
  const at::Tensor bin = left.to(at::kLong).unsqueeze(-1);
  const at::Tensor at_left = log_probabilities.gather(-1, bin).squeeze(-1);
  const at::Tensor at_right = log_probabilities.gather(-1, bin + 1).squeeze(-1);
  return -(at_left * (1 - right_weight) + at_right * right_weight).mean(-1);
}

}  // namespace sgtrain::losses
