// Samples into one batch.
#pragma once

#include <vector>

#include "data/dataset.h"
#include "data/sample.h"
#include "loader/buffers.h"
#include "tensor/batch.h"

namespace sgtrain::loader {

/// @param images the batch's pixels where they were written in place, else undefined: then the
/// samples' images are copied, and must be of one size (error: core::Error with the names).
/// @param missing samples that could not be loaded: left out.
tensor::Batch collate(const std::vector<data::Sample>& samples, const std::vector<char>& missing,
                      at::Tensor images, data::Task task, Buffers& buffers);

}  // namespace sgtrain::loader
