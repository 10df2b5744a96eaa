// Parts of a run with a state of their own.
#pragma once

#include "tensor/value.h"

namespace sgtrain::train {

/// What a resumed run needs of a part, as plain values and tensors; None: nothing.
class Resumable {
 public:
  virtual ~Resumable() = default;
  virtual tensor::Value save() const { return {}; }
  /// Takes over what save() gave in another process. Called before the run starts, only when
  /// save() gave something. @throws core::Error when the value does not fit
  virtual void load(const tensor::Value& state) { static_cast<void>(state); }
};

}  // namespace sgtrain::train
