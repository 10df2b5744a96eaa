// Pointwise nonlinearities by the names that recipes use.
#pragma once

#include <ATen/ATen.h>

#include <string_view>

#include "core/node.h"
#include "tensor/module.h"

namespace sgtrain::nn {

enum class Act {
  kIdentity,
  kRelu,
  kRelu6,
  kLeakyRelu,
  kSilu,
  kHardswish,
  kHardsigmoid,
  kGelu,
  kMish,
  kSigmoid,
  kTanh,
  kElu
};

/// "relu", "relu6", "leaky_relu" (slope 0.01), "silu" ("swish"), "hardswish", "hardsigmoid",
/// "gelu", "mish", "sigmoid", "tanh", "elu", "identity" ("linear", "none"). Unknown names:
/// InputError.
Act activation_from_name(std::string_view name);

/// The same from a recipe key; an unknown name becomes a problem of the node.
Act read_activation(core::Node& node, std::string_view key, std::string_view fallback);

/// `in_place` overwrites x: only for a tensor that nobody else reads and whose producer does not
/// need its own output in backward.
at::Tensor activate(Act act, const at::Tensor& x, bool in_place = false);

/// A numbered place in a Sequential.
class Activation final : public tensor::Module {
 public:
  explicit Activation(Act act, bool in_place = false) : act_(act), in_place_(in_place) {}
  at::Tensor forward(const at::Tensor& x) override { return activate(act_, x, in_place_); }
  Act act() const { return act_; }

 private:
  Act act_;
  bool in_place_;
};

}  // namespace sgtrain::nn
