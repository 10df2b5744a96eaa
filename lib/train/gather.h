// Tensors of every rank on every rank.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "dist/communicator.h"

namespace sgtrain::train {

/// By rank; any number of tensors of any shape each, on the CPU. Collective.
std::vector<std::vector<at::Tensor>> gather(const std::vector<at::Tensor>& tensors,
                                            dist::Communicator& comm);

}  // namespace sgtrain::train
