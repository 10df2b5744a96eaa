// Box regression by distributions over distances (Li et al. 2020, Generalized Focal Loss).
#pragma once

#include <ATen/ATen.h>

namespace sgtrain::losses {

/// Expected distances in units of the stride: [..., 4 * bins] logits → [..., 4] (left, top, right,
/// bottom); bin k stands for the distance k.
at::Tensor expected_distances(const at::Tensor& distribution, std::int64_t bins);

/// xyxy boxes [..., A, 4] from anchor points [A, 2] (or in pairs) and distances [..., A, 4].
at::Tensor boxes_from_distances(const at::Tensor& points, const at::Tensor& distances);

/// Cross entropy with the two bins around each target distance, weighted linearly, mean over the
/// four sides: log-probabilities [P, 4, bins], targets [P, 4] in [0, bins - 1) → [P].
at::Tensor distribution_focal(const at::Tensor& log_probabilities, const at::Tensor& targets);

}  // namespace sgtrain::losses
