// What a checkpoint says about using its model: class names, preprocessing, thresholds, as plain
// values in SuperGradients' form ({Name: {params}}).
#pragma once

#include "tensor/value.h"
#include "train/run.h"
#include "train/run_plan.h"

namespace sgtrain::train {

/// From the validation set's transforms. None when they are random or there is no validation set.
tensor::Value processing_params(const RunPlan& plan, const Run& run);

}  // namespace sgtrain::train
