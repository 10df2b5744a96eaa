// TrainState as the plain values of a checkpoint.
#pragma once

#include <string>

#include "tensor/checkpoint.h"
#include "train/state.h"

namespace sgtrain::train {

tensor::Value to_value(const TrainState& state);
/// Values that older checkpoints lack keep their defaults.
TrainState state_from(const tensor::Value& value);

/// Where a checkpoint of the reference implementation stands: whole epochs, and the best metric by
/// its own record. Its `epoch` counts finished epochs.
TrainState state_of_reference(const tensor::Checkpoint& checkpoint, const std::string& watched,
                              int batches_per_epoch);

}  // namespace sgtrain::train
