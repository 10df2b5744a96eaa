// What a checkpoint says about using its model: class names, preprocessing, thresholds, as plain
// values in SuperGradients' form ({Name: {params}}).
#pragma once

#include "tensor/value.h"
#include "train/run.h"
#include "train/run_plan.h"

namespace sgtrain::train {

/// Fills run.processing_params and run.image_processor from the validation set's transforms. They
/// stay empty when those are random or there is no validation set.
void describe_processing(const RunPlan& plan, Run& run);

}  // namespace sgtrain::train
