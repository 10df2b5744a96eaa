// Batch-norm statistics by a true mean over batches instead of a moving one (Wu and Johnson,
// "Rethinking 'Batch' in BatchNorm", 2021; `precise_bn`).
#pragma once

#include "train/run.h"

namespace sgtrain::train {

/// Replaces running means and variances by their mean over the first `batches` batches of the
/// training set, in training mode without gradients, and over ranks. Collective; does nothing for
/// a network without batch norm.
void update_batch_norm(Run& run, int epoch, int batches);

/// Batches per process: those of `precise_bn_batch_size` images over all processes, or as many as
/// there are processes; at least 1, at most an epoch.
int precise_bn_batches(const Run& run);

}  // namespace sgtrain::train
