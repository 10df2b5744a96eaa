#include "nn/layers.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "nn/fused/norm_act.h"
#include "nn/sync_batch_norm.h"

namespace sgtrain::nn {
namespace {

at::Tensor draw_like_statistics(const at::Tensor& old, at::IntArrayRef sizes) {
  const at::NoGradGuard no_grad;
  const at::Tensor values = old.detach().to(at::kDouble);
  const double mean = values.mean().item<double>();
  // The deviation of a single value is undefined: such a tensor carries no spread to imitate.
  const double deviation = values.numel() > 1 ? values.std().item<double>() : 0.0;
  return at::empty(sizes, old.options().requires_grad(false)).normal_(mean, deviation);
}

void rebind(at::Tensor& parameter, at::Tensor value) {
  const bool trainable = parameter.requires_grad();
  parameter = std::move(value);
  parameter.set_requires_grad(trainable);
}

}  // namespace

void init_uniform_fan_in(at::Tensor& weight, at::Tensor& bias) {
  const at::NoGradGuard no_grad;
  const std::int64_t fan_in = weight.numel() / weight.size(0);
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  weight.uniform_(-bound, bound);
  if (bias.defined()) bias.uniform_(-bound, bound);
}

// ---------------------------------------------------------------- Conv2d

Conv2d::Conv2d(const ConvOptions& options) : options_(options) {
  at::Tensor w =
      at::empty({options.out, options.in / options.groups, options.kernel, options.kernel});
  at::Tensor b = options.bias ? at::empty({options.out}) : at::Tensor();
  init_uniform_fan_in(w, b);
  add_parameter("weight", weight, std::move(w));
  add_parameter("bias", bias, std::move(b));
}

at::Tensor Conv2d::forward(const at::Tensor& x) {
  return conv2d(x, weight, bias, options_);
}

void Conv2d::replace_outputs(int out) {
  rebind(weight,
         draw_like_statistics(weight, {out, weight.size(1), weight.size(2), weight.size(3)}));
  if (bias.defined()) rebind(bias, draw_like_statistics(bias, {out}));
  options_.out = out;
}

void Conv2d::replace_inputs(int in) {
  if (in % options_.groups != 0) {
    throw core::InputError(std::to_string(in) + " input channels cannot be split into " +
                           std::to_string(options_.groups) + " groups");
  }
  const at::NoGradGuard no_grad;
  const std::int64_t fresh = in / options_.groups;
  at::Tensor value =
      draw_like_statistics(weight, {weight.size(0), fresh, weight.size(2), weight.size(3)});
  const std::int64_t kept = std::min(fresh, weight.size(1));
  value.narrow(1, 0, kept).copy_(weight.detach().narrow(1, 0, kept));
  rebind(weight, std::move(value));
  options_.in = in;
}

// ------------------------------------------------------- ConvTranspose2d

ConvTranspose2d::ConvTranspose2d(int in, int out, int kernel, int stride, bool with_bias)
    : stride_(stride) {
  at::Tensor w = at::empty({in, out, kernel, kernel});
  at::Tensor b = with_bias ? at::empty({out}) : at::Tensor();
  init_uniform_fan_in(w, b);
  add_parameter("weight", weight, std::move(w));
  add_parameter("bias", bias, std::move(b));
}

at::Tensor ConvTranspose2d::forward(const at::Tensor& x) {
  return at::conv_transpose2d(x, weight, bias, stride_);
}

// ---------------------------------------------------------------- Linear

Linear::Linear(int in, int out, bool with_bias) {
  at::Tensor w = at::empty({out, in});
  at::Tensor b = with_bias ? at::empty({out}) : at::Tensor();
  init_uniform_fan_in(w, b);
  add_parameter("weight", weight, std::move(w));
  add_parameter("bias", bias, std::move(b));
}

void Linear::replace_outputs(int out) {
  at::Tensor w = at::empty({out, weight.size(1)}, weight.options().requires_grad(false));
  at::Tensor b = bias.defined() ? at::empty({out}, w.options()) : at::Tensor();
  init_uniform_fan_in(w, b);
  rebind(weight, std::move(w));
  if (bias.defined()) rebind(bias, std::move(b));
}

// ----------------------------------------------------------- BatchNorm2d

BatchNorm2d::BatchNorm2d(int channels, double eps, double momentum) : eps(eps), momentum(momentum) {
  add_parameter("weight", weight, at::ones({channels}));
  add_parameter("bias", bias, at::zeros({channels}));
  add_buffer("running_mean", running_mean, at::zeros({channels}));
  add_buffer("running_var", running_var, at::ones({channels}));
  add_buffer("num_batches_tracked", num_batches_tracked, at::zeros({}, at::kLong));
}

void BatchNorm2d::count_batch(const at::Tensor& x) {
  if (x.numel() <= x.size(1)) {
    throw core::Error(
        "batch normalisation in training needs more than one value per channel, found an input "
        "of " +
            std::to_string(x.size(0)) + " image(s) of " + std::to_string(x.size(2)) + "x" +
            std::to_string(x.size(3)),
        {}, "use a larger batch, larger images, or drop the last incomplete batch");
  }
  const at::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
}

bool BatchNorm2d::fusable(const at::Tensor& x) const {
  return !synchronised() && fused::supports(x);
}

at::Tensor BatchNorm2d::forward(const at::Tensor& x) {
  if (synchronised()) return sync_batch_norm(x, *this, *sync);
  if (is_training()) count_batch(x);
  if (fusable(x)) return fused::norm_act(x, {}, *this, Act::kIdentity);
  return at::batch_norm(x, weight, bias, running_mean, running_var, is_training(), momentum, eps,
                        true);
}

at::Tensor BatchNorm2d::forward_act(const at::Tensor& x, Act act) {
  return forward_act(x, act, {});
}

at::Tensor BatchNorm2d::forward_act(const at::Tensor& x, Act act,
                                    const fused::Destination& destination) {
  if (fusable(x) && fused::supports(act)) {
    if (is_training()) count_batch(x);
    return fused::norm_act(x, {}, *this, act, destination);
  }
  const at::Tensor y = activate(act, forward(x), /*in_place=*/true);
  if (destination.slice.defined()) {
    const at::NoGradGuard no_grad;
    destination.slice.copy_(y);
  }
  return y;
}

at::Tensor BatchNorm2d::forward_add_act(const at::Tensor& x, const at::Tensor& residual, Act act) {
  if (fusable(x) && fused::supports(act) && fused::supports_pair(x, residual)) {
    if (is_training()) count_batch(x);
    return fused::norm_act(x, residual, *this, act);
  }
  return activate(act, forward(x).add_(residual), /*in_place=*/true);
}

std::pair<at::Tensor, at::Tensor> BatchNorm2d::folded() const {
  const at::Tensor scale = weight / at::sqrt(running_var + eps);
  return {scale, bias - running_mean * scale};
}

// ----------------------------------------------------------------- others

at::Tensor MaxPool2d::forward(const at::Tensor& x) {
  return at::max_pool2d(x, {kernel_, kernel_}, {stride_, stride_}, {padding_, padding_});
}

at::Tensor global_average_pool(const at::Tensor& x) {
  return x.mean({2, 3});
}

at::Tensor Dropout::forward(const at::Tensor& x) {
  return is_training() && p > 0.0 ? at::dropout(x, p, true) : x;
}

at::Tensor Dropout2d::forward(const at::Tensor& x) {
  return is_training() && p > 0.0 ? at::feature_dropout(x, p, true) : x;
}

at::Tensor DropPath::forward(const at::Tensor& x) {
  if (!active()) return x;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[0] = x.size(0);
  const double keep = 1.0 - p;
  at::Tensor mask = at::empty(sizes, x.options().requires_grad(false)).bernoulli_(keep);
  return x * mask.div_(keep);
}

int width_multiplier(int original, double factor, int divisor) {
  const int scaled = static_cast<int>(original * factor);
  return divisor > 0 ? (scaled + divisor - 1) / divisor * divisor : scaled;
}

}  // namespace sgtrain::nn
