// Losses and gradients that are no numbers: what to tell the user.
#pragma once

#include <string>

#include "tensor/batch.h"
#include "train/run.h"
#include "train/step.h"

namespace sgtrain::train {

/// "PPYoloELoss/loss_iou is nan; first tensor with non-finite values: output 'boxes'"
std::string describe_loss(const Run& run, const StepOutput& output);

/// "gradient of 'backbone.stem.conv.weight' is not finite"
std::string describe_gradients(const Run& run);

/// Up to eight paths of a batch's images.
std::string describe_images(const Run& run, const tensor::Batch& batch);

}  // namespace sgtrain::train
