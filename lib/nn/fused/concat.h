// A concatenation over channels whose parts are written where they belong, instead of being copied
// there afterwards.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "nn/fused/norm_act.h"

namespace sgtrain::nn::fused {

///   Concatenation cat(channels);
///   cat.add(norm.forward_act(x, act, cat.place(x)));     // written in place
///   cat.add_copy(other);                                  // an existing tensor
///   y = cat.result();
/// Parts come in the order of their places. Where the loops do not apply it is at::cat.
class Concatenation {
 public:
  /// @param channels of all parts together
  explicit Concatenation(std::int64_t channels) : channels_(channels) {}

  /// The place of the next part, which has the size and type of `like`. A part that other
  /// operations read too needs a dense tensor besides its slice.
  Destination place(const at::Tensor& like, bool also_dense = false);
  /// The part for which `place` was called last.
  void add(at::Tensor part) { parts_.push_back(std::move(part)); }
  void add_copy(const at::Tensor& part);
  at::Tensor result() const;

 private:
  std::int64_t channels_, used_ = 0;
  bool in_place_ = true;  // every part so far lies in the buffer
  at::Tensor buffer_;
  std::vector<at::Tensor> parts_;
};

}  // namespace sgtrain::nn::fused
