// Batch normalisation over the global batch of several processes.
#pragma once

#include <ATen/ATen.h>

#include "dist/communicator.h"
#include "nn/layers.h"

namespace sgtrain::nn {

/// bn(x) in training with mean and variance over the batches of all ranks, x [B, C, H, W]; B, H and
/// W may differ between ranks. Updates bn's running statistics, equally on every rank. Collective,
/// and so is its backward: every rank must differentiate through it, in the same order.
/// Gradients of weight and bias are this rank's share of the sum (the reducer adds them up).
/// Statistics are summed in double: equal to one process on the global batch to rounding.
at::Tensor sync_batch_norm(const at::Tensor& x, BatchNorm2d& bn, dist::Communicator& comm);

/// Every BatchNorm2d of the module takes its statistics over all ranks (`sync_bn: True`); nothing
/// when there is one rank. The communicator must outlive the module's training.
void synchronise_batch_norm(tensor::Module& module, dist::Communicator& comm);

}  // namespace sgtrain::nn
