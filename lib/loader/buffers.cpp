#include "loader/buffers.h"

namespace sgtrain::loader {

at::Tensor Buffers::images(std::int64_t batch, std::int64_t height, std::int64_t width) {
  const std::int64_t bytes = batch * height * width * 3;
  const std::vector<std::int64_t> shape{batch, height, width, 3};
  if (pinned_) return at::empty(shape, at::TensorOptions(at::kByte).pinned_memory(true));
  const std::scoped_lock lock(mutex_);
  at::Tensor* best = nullptr;
  for (at::Tensor& block : blocks_) {
    // Held by nobody but this list.
    if (block.storage().use_count() != 1 || block.use_count() != 1) continue;
    if (best == nullptr || block.numel() > best->numel()) best = &block;
  }
  if (best == nullptr) best = &blocks_.emplace_back();
  if (!best->defined() || best->numel() < bytes) {
    *best = at::Tensor();  // free before allocating
    *best = at::empty({bytes}, at::kByte);
  }
  return best->narrow(0, 0, bytes).view(shape);
}

std::size_t Buffers::blocks() const {
  const std::scoped_lock lock(mutex_);
  return blocks_.size();
}

}  // namespace sgtrain::loader
