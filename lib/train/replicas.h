// What the processes of a run hold in common, and how it stays so.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "train/run.h"

namespace sgtrain::train {

/// What ranks must agree in: parameters, the optimizer's state and the moving average. Batch norms'
/// statistics are each rank's own unless they are synchronised.
std::vector<std::pair<std::string, at::Tensor>> learned_state(Run& run);

/// Parameters that get a gradient in every backward.
std::vector<tensor::TensorRef> reduced_parameters(models::Model& model);

/// The mean over ranks of every gradient, outside of backward. Collective.
void average_gradients(Run& run);

/// Running statistics of batch norms are each rank's own; what counts are rank 0's, as with torch's
/// DistributedDataParallel. Collective.
void share_buffers(Run& run);

}  // namespace sgtrain::train
