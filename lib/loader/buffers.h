// Memory of batches, used again and again: an epoch allocates nothing after its first batches.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace sgtrain::loader {

class Buffers {
 public:
  /// @param pinned page-locked memory. It is not kept here: LibTorch's own cache of it knows when
  /// an asynchronous copy to the GPU has finished with a block.
  explicit Buffers(bool pinned) : pinned_(pinned) {}

  /// uint8 [batch, height, width, 3], contents undefined. The block returns when the last tensor
  /// on it is gone. Thread-safe.
  at::Tensor images(std::int64_t batch, std::int64_t height, std::int64_t width);

  /// Blocks held (tests).
  std::size_t blocks() const;

 private:
  bool pinned_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> blocks_;
};

}  // namespace sgtrain::loader
