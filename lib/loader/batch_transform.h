// Transforms of whole batches on the device, after normalisation (CollateMixup). A new one is one
// file in loader/, last line SGTRAIN_REGISTER(BatchTransform, Class, "Name").
#pragma once

#include <ATen/ATen.h>

#include "core/random.h"
#include "core/registry.h"
#include "tensor/batch.h"

namespace sgtrain::loader {

class BatchTransform {
 public:
  using Registry = core::Registry<BatchTransform>;
  static Registry& registry();

  virtual ~BatchTransform() = default;
  /// @param images  float [B, 3, H, W], normalised; replaced or changed in place
  /// @param targets on the same device; replaced
  virtual void apply(at::Tensor& images, tensor::Targets& targets, core::Random& random) const = 0;
  /// Labels become soft: float [B, num_classes].
  virtual bool makes_soft_labels() const { return false; }
};

}  // namespace sgtrain::loader
