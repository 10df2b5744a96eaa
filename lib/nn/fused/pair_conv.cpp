#include "nn/fused/pair_conv.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <cstdint>
#include <optional>

#include "nn/conv.h"
#include "nn/fused/norm_act.h"
#include "nn/fused/rows.h"

namespace sgtrain::nn::fused {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Every stride-th pixel as a tensor of its own (see nn/conv.h on strided 1x1 convolutions).
at::Tensor sample(const at::Tensor& x, std::int64_t stride) {
  return stride == 1 ? x : every_pixel(x, stride).contiguous(x.suggest_memory_format());
}

/// to += a [+ b] in one pass.
void add_to(const at::Tensor& to, const at::Tensor& a, const at::Tensor& b = {}) {
  if (!supports(to) || !supports_pair(to, a) || (b.defined() && !supports_pair(to, b))) {
    to.add_(a);
    if (b.defined()) to.add_(b);
    return;
  }
  dispatch(to, [&](auto storage) {
    using T = decltype(storage);
    const std::int64_t channels = to.size(1);
    const kernels::Rows<T> sum = mutable_rows<T>(to);
    const kernels::Rows<const T> first = rows<T>(a), second = rows<T>(b);
    Split(to.numel() / channels, channels, to.element_size())
        .each_block([&](std::int64_t, std::int64_t begin, std::int64_t end) {
          kernels::table<T>().sum(sum.from(begin), first.from(begin), second.from(begin),
                                  end - begin, channels);
        });
  });
}

class PairConv : public Function<PairConv> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& kernel,
                               const at::Tensor& point, const std::optional<at::Tensor>& bias,
                               std::int64_t stride, bool identity) {
    ctx->save_for_backward({x, kernel, point});
    ctx->saved_data["stride"] = stride;
    ctx->saved_data["bias"] = bias.has_value();
    ctx->saved_data["identity"] = identity;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    at::Tensor second = at::conv2d(sample(x, stride), point, bias);
    if (identity) add_to(second, x);
    return {at::conv2d(x, kernel, {}, {stride, stride}, {1, 1}), second};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &kernel = saved[1], &point = saved[2];
    const std::int64_t stride = ctx->saved_data["stride"].toInt();
    const bool with_bias = ctx->saved_data["bias"].toBool(), needs_input = ctx->needs_input_grad(0);
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto differentiate = [&](const at::Tensor& g, const at::Tensor& in,
                                   const at::Tensor& weight, std::int64_t step,
                                   std::int64_t padding, bool bias) {
      const std::array<std::int64_t, 1> bias_size{weight.size(0)};
      return at::convolution_backward(
          g, in, weight, bias ? at::OptionalIntArrayRef(bias_size) : at::OptionalIntArrayRef(),
          {step, step}, {padding, padding}, {1, 1}, false, {0, 0}, 1, {needs_input, true, bias});
    };
    auto [d_x, d_kernel, none] = differentiate(gradients[0], x, kernel, stride, 1, false);
    const auto [d_sampled, d_point, d_bias] =
        differentiate(gradients[1], sample(x, stride), point, 1, 0, with_bias);
    if (needs_input) {
      add_to(every_pixel(d_x, stride), d_sampled,
             ctx->saved_data["identity"].toBool() ? gradients[1] : at::Tensor());
    }
    return {d_x, d_kernel, d_point, d_bias, {}, {}};
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> pair_conv(const at::Tensor& x, const PairWeights& w) {
  if (!supports(x)) {
    const auto convolve = [&](const at::Tensor& weight, const at::Tensor& bias, int kernel) {
      return conv2d(x, weight, bias, {.kernel = kernel, .stride = w.stride, .padding = kernel / 2});
    };
    at::Tensor second = convolve(w.point, w.point_bias, 1);
    if (w.identity) second = second + x;
    return {convolve(w.kernel, {}, 3), second};
  }
  const bool mixed = at::autocast::is_autocast_enabled(x.device().type());
  const at::ScalarType type =
      mixed ? at::autocast::get_autocast_dtype(x.device().type()) : w.kernel.scalar_type();
  const auto cast = [&](const at::Tensor& t) { return t.to(type); };
  at::Tensor point = w.point;
  // Behind the rounding of bfloat16 a one beside small weights would swallow them.
  const bool inside = w.identity && type != at::kBFloat16;
  if (inside) {
    point = point + at::eye(point.size(0), point.options().requires_grad(false)).view_as(point);
  }
  const std::optional<at::Tensor> bias =
      w.point_bias.defined() ? std::optional(cast(w.point_bias)) : std::nullopt;
  const variable_list out =
      PairConv::apply(cast(x), cast(w.kernel), cast(point), bias,
                      static_cast<std::int64_t>(w.stride), w.identity && !inside);
  return {out[0], out[1]};
}

}  // namespace sgtrain::nn::fused
