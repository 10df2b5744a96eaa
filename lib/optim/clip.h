// Clipping of gradients by their norm over all parameters.
#pragma once

#include <ATen/ATen.h>

#include <span>

#include "optim/optimizer.h"

namespace sgtrain::optim {

/// L2 norm over all gradients, a scalar tensor on the first gradient's device (no wait for a GPU).
/// After an all-reduce every rank has the same gradients, hence the same norm.
at::Tensor grad_norm(std::span<const at::Tensor> grads);

/// Scales the gradients in place so that their norm is at most `max_norm`, as
/// torch.nn.utils.clip_grad_norm_ does: by max_norm / (norm + 1e-6) when that is below 1. Returns
/// the norm before. With a loss scale, unscale first.
at::Tensor clip_grad_norm(std::span<const at::Tensor> grads, double max_norm);
/// The same where the norm is known already.
void clip_grad_norm(std::span<const at::Tensor> grads, const at::Tensor& norm, double max_norm);
at::Tensor clip_grad_norm(const Optimizer& optimizer, double max_norm);

}  // namespace sgtrain::optim
