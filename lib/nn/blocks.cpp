#include "nn/blocks.h"

#include <utility>

#include "core/error.h"
#include "nn/fused/norm_act.h"
#include "nn/fused/pair_conv.h"

namespace sgtrain::nn {

ConvBnAct::ConvBnAct(int in, int out, int kernel, int stride, Act act, int groups)
    : conv(add<Conv2d>("conv", ConvOptions{.in = in,
                                           .out = out,
                                           .kernel = kernel,
                                           .stride = stride,
                                           .padding = kernel / 2,
                                           .groups = groups,
                                           .bias = false})),
      bn(add<BatchNorm2d>("bn", out)),
      act_(act) {}

at::Tensor ConvBnAct::forward(const at::Tensor& x) {
  return bn.forward_act(conv.forward(x), act_);
}

at::Tensor ConvBnAct::forward_into(fused::Concatenation& cat, const at::Tensor& x,
                                   bool also_dense) {
  const at::Tensor t = conv.forward(x);
  const at::Tensor y = bn.forward_act(t, act_, cat.place(t, also_dense));
  cat.add(y);
  return y;
}

// --------------------------------------------------------- QARepVGGBlock

QARepVGGBlock::Branch3x3::Branch3x3(const Options& o)
    : conv(add<Conv2d>("conv", ConvOptions{.in = o.in,
                                           .out = o.out,
                                           .kernel = 3,
                                           .stride = o.stride,
                                           .padding = 1,
                                           .bias = false})),
      bn(add<BatchNorm2d>("bn", o.out)) {}

QARepVGGBlock::QARepVGGBlock(const Options& options) : options_(options) {
  if (options.residual && (options.in != options.out || options.stride != 1)) {
    throw core::Error("a QARepVGG block with identity branch needs equal channels and stride 1");
  }
  if (options.use_alpha) add_parameter("alpha", alpha_, 1.0 + 0.01 * at::randn({1}));
  branch_3x3_ = &add<Branch3x3>("branch_3x3", options);
  branch_1x1_ = &add<Conv2d>("branch_1x1", ConvOptions{.in = options.in,
                                                       .out = options.out,
                                                       .kernel = 1,
                                                       .stride = options.stride,
                                                       .bias = options.use_1x1_bias});
  if (options.use_post_bn) post_bn_ = &add<BatchNorm2d>("post_bn", options.out);
  rbr_reparam_ = &add<Conv2d>("rbr_reparam", ConvOptions{.in = options.in,
                                                         .out = options.out,
                                                         .kernel = 3,
                                                         .stride = options.stride,
                                                         .padding = 1});
}

/// The 3x3 branch before its norm, and all that is added to it after the norm.
std::pair<at::Tensor, at::Tensor> QARepVGGBlock::convolve_branches(const at::Tensor& x) const {
  at::Tensor point = branch_1x1_->weight, bias = branch_1x1_->bias;
  if (alpha_.defined()) {
    point = alpha_ * point;
    if (bias.defined()) bias = alpha_ * bias;
  }
  return fused::pair_conv(x, {.kernel = branch_3x3_->conv.weight,
                              .point = point,
                              .point_bias = bias,
                              .stride = options_.stride,
                              .identity = options_.residual});
}

at::Tensor QARepVGGBlock::forward_add(const at::Tensor& x, const at::Tensor& alpha,
                                      const at::Tensor& skip, fused::Concatenation* cat,
                                      bool also_dense) {
  at::Tensor sum;
  if (state_ == State::kBranches) {
    BatchNorm2d& norm = branch_3x3_->bn;
    const auto [t, point] = convolve_branches(x);
    const bool fusable = is_training() && post_bn_ != nullptr && norm.fusable(t) &&
                         post_bn_->fusable(t) && fused::supports(options_.act) &&
                         fused::supports_pair(t, point) &&
                         (!skip.defined() || fused::supports_pair(t, skip));
    if (fusable) {
      norm.count_batch(t);
      post_bn_->count_batch(t);
      const auto place = cat != nullptr ? cat->place(t, also_dense) : fused::Destination{};
      const at::Tensor y =
          fused::branches(t, point, norm, *post_bn_, options_.act, alpha, skip, place);
      if (cat != nullptr) cat->add(y);
      return y;
    }
    sum = norm.forward_add_act(t, point, Act::kIdentity);
  } else {
    sum = rbr_reparam_->forward(x);
  }
  at::Tensor y = post_bn_ != nullptr ? post_bn_->forward_act(sum, options_.act)
                                     : activate(options_.act, sum, /*in_place=*/true);
  if (skip.defined()) y = alpha * skip + y;
  if (cat != nullptr) cat->add_copy(y);
  return y;
}

std::pair<at::Tensor, at::Tensor> QARepVGGBlock::equivalent_kernel() const {
  const auto [scale, shift] = branch_3x3_->bn.folded();
  const at::Tensor alpha = alpha_.defined() ? alpha_ : at::ones({1}, scale.options());
  at::Tensor kernel = branch_3x3_->conv.weight * scale.view({-1, 1, 1, 1}) +
                      alpha * at::constant_pad_nd(branch_1x1_->weight, {1, 1, 1, 1});
  if (options_.residual) {
    const at::Tensor eye =
        at::eye(options_.in, kernel.options()).view({options_.in, options_.in, 1, 1});
    kernel = kernel + at::constant_pad_nd(eye, {1, 1, 1, 1});
  }
  at::Tensor bias = shift;
  if (branch_1x1_->bias.defined()) bias = bias + alpha * branch_1x1_->bias;
  return {kernel, bias};
}

void QARepVGGBlock::fuse_partially() {
  if (state_ == State::kPartiallyFused) return;
  if (state_ == State::kFullyFused) {
    throw core::Error("a fully fused QARepVGG block cannot become partially fused", {},
                      "load the weights again and fuse them partially");
  }
  const at::NoGradGuard no_grad;
  const auto [kernel, bias] = equivalent_kernel();
  rbr_reparam_->weight.copy_(kernel);
  rbr_reparam_->bias.copy_(bias);
  remove("branch_3x3");
  remove("branch_1x1");
  remove("alpha");
  branch_3x3_ = nullptr;
  branch_1x1_ = nullptr;
  alpha_ = at::Tensor();
  state_ = State::kPartiallyFused;
}

void QARepVGGBlock::fuse_fully() {
  if (state_ == State::kFullyFused) return;
  fuse_partially();
  const at::NoGradGuard no_grad;
  if (post_bn_ != nullptr) {
    const auto [scale, shift] = post_bn_->folded();
    rbr_reparam_->bias.copy_(rbr_reparam_->bias * scale + shift);
    rbr_reparam_->weight.copy_(rbr_reparam_->weight * scale.view({-1, 1, 1, 1}));
    remove("post_bn");
    post_bn_ = nullptr;
  }
  rbr_reparam_->weight.set_requires_grad(false);
  rbr_reparam_->bias.set_requires_grad(false);
  state_ = State::kFullyFused;
}

void QARepVGGBlock::replace_inputs(int in) {
  if (options_.residual) throw core::Error("the input channels of a residual block cannot change");
  options_.in = in;
  if (branch_3x3_ != nullptr) branch_3x3_->conv.replace_inputs(in);
  if (branch_1x1_ != nullptr) branch_1x1_->replace_inputs(in);
  rbr_reparam_->replace_inputs(in);
}

// -------------------------------------------------------------------- SPP

SPP::SPP(int in, int out, std::vector<int> kernels, Act act)
    : kernels_(std::move(kernels)),
      cv1_(add<ConvBnAct>("cv1", in, in / 2, 1, 1, act)),
      cv2_(add<ConvBnAct>("cv2", in / 2 * (static_cast<int>(kernels_.size()) + 1), out, 1, 1,
                          act)) {}

at::Tensor SPP::forward(const at::Tensor& input) {
  fused::Concatenation cat(cv2_.conv.options().in);
  const at::Tensor x = cv1_.forward_into(cat, input, /*also_dense=*/true);
  for (const int k : kernels_) cat.add_copy(at::max_pool2d(x, {k, k}, {1, 1}, {k / 2, k / 2}));
  return cv2_.forward(cat.result());
}

void set_batch_norm(tensor::Module& module, double eps, double momentum) {
  module.apply([&](const std::string&, tensor::Module& part) {
    auto* norm = dynamic_cast<BatchNorm2d*>(&part);
    if (norm == nullptr) return;
    if (eps > 0.0) norm->eps = eps;
    if (momentum > 0.0) norm->momentum = momentum;
  });
}

}  // namespace sgtrain::nn
