// Classification terms of dense detectors: most of the B·A·C logits are background, so the loss
// and its gradient are computed together in one pass and nothing else of that size is kept.
#pragma once

#include <ATen/ATen.h>

namespace sgtrain::losses {

enum class DenseClassification {
  kVarifocal,     // Zhang et al. 2021: 0.75·p²·BCE for background, q·BCE(q) for positives
  kFocal,         // |p - q|²·BCE(q), weighted 0.25·q + 0.75·(1 - q)
  kFocalNoAlpha,  // |p - q|²·BCE(q)
};

/// Sum over all logits, differentiable once with respect to them.
/// @param logits [B, A, C]; float or double
/// @param positions int64 [P], distinct: places of positives in the flattened logits
/// @param quality [P] targets q in 0..1 of these; all other logits have the target 0
at::Tensor dense_classification_sum(const at::Tensor& logits, const at::Tensor& positions,
                                    const at::Tensor& quality, DenseClassification kind);

}  // namespace sgtrain::losses
