// The one place where bytes become network input.
#pragma once

#include <ATen/ATen.h>

#include "data/normalisation.h"

namespace sgtrain::loader {

/// (pixel - mean) / std of uint8 images [B, H, W, 3], on their device: float32 (or `dtype`)
/// [B, 3, H, W] in channels_last memory. On the CPU in one pass over memory, on all threads.
at::Tensor normalise(const at::Tensor& images, const data::Normalisation& normalisation,
                     at::ScalarType dtype = at::kFloat);

}  // namespace sgtrain::loader
