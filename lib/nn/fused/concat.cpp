#include "nn/fused/concat.h"

#include <vector>

namespace sgtrain::nn::fused {

Destination Concatenation::place(const at::Tensor& like, bool also_dense) {
  in_place_ = in_place_ && supports(like);
  if (in_place_ && !buffer_.defined()) {
    std::vector<std::int64_t> sizes = like.sizes().vec();
    sizes[1] = channels_;
    buffer_ = at::empty(sizes, like.options().requires_grad(false), at::MemoryFormat::ChannelsLast);
  }
  in_place_ = in_place_ && buffer_.scalar_type() == like.scalar_type();
  if (!in_place_) return {};
  const at::NoGradGuard no_grad;
  const Destination out{buffer_.narrow(1, used_, like.size(1)), !also_dense};
  used_ += like.size(1);
  return out;
}

void Concatenation::add_copy(const at::Tensor& part) {
  const Destination destination = place(part);
  if (destination.slice.defined()) {
    const at::NoGradGuard no_grad;
    destination.slice.copy_(part);
  }
  add(part);
}

at::Tensor Concatenation::result() const {
  return in_place_ ? join(buffer_, parts_) : at::cat(parts_, 1);
}

}  // namespace sgtrain::nn::fused
