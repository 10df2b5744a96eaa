// Blocks that several architectures share. Child names are those of SuperGradients' state_dicts.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "nn/fused/concat.h"
#include "nn/layers.h"
#include "tensor/module.h"

namespace sgtrain::nn {

/// act(bn(conv(x))), children `conv` and `bn`; "same" padding for odd kernels, no convolution bias.
class ConvBnAct final : public tensor::Module {
 public:
  ConvBnAct(int in, int out, int kernel, int stride, Act act, int groups = 1);
  at::Tensor forward(const at::Tensor& x) override;
  /// forward(x) as the next part of a concatenation; `also_dense`: the result has other readers
  /// too.
  at::Tensor forward_into(fused::Concatenation& cat, const at::Tensor& x, bool also_dense = false);

  Conv2d& conv;
  BatchNorm2d& bn;

 private:
  Act act_;
};

/// The same under the child `seq` (`seq.conv`, `seq.bn`), always with ReLU.
class ConvBnRelu final : public tensor::Module {
 public:
  ConvBnRelu(int in, int out, int kernel, int stride, int groups = 1)
      : seq(add<ConvBnAct>("seq", in, out, kernel, stride, Act::kRelu, groups)) {}
  at::Tensor forward(const at::Tensor& x) override { return seq.forward(x); }

  ConvBnAct& seq;
};

/// Quantisation-aware RepVGG block (Chu et al. 2022, arXiv 2212.01593):
/// y = act(post_bn(bn3(conv3(x)) + alpha * conv1(x) + [x])).
/// `rbr_reparam`, the 3x3 convolution of the fused block, is part of the state from the start, as
/// in SuperGradients, and takes no part in training before fusion.
class QARepVGGBlock final : public tensor::Module {
 public:
  struct Options {
    int in = 0, out = 0;
    int stride = 1;
    Act act = Act::kRelu;
    bool residual = true;    // the identity branch; needs in == out and stride 1
    bool use_alpha = false;  // learnable factor of the 1x1 branch
    bool use_1x1_bias = true;
    bool use_post_bn = true;
  };
  enum class State { kBranches, kPartiallyFused, kFullyFused };

  explicit QARepVGGBlock(const Options& options);
  at::Tensor forward(const at::Tensor& x) override { return forward_add(x, {}, {}); }
  /// forward(x) + alpha * skip, alpha [1]; into the next place of `cat`, when given.
  at::Tensor forward_add(const at::Tensor& x, const at::Tensor& alpha, const at::Tensor& skip,
                         fused::Concatenation* cat = nullptr, bool also_dense = false);

  /// Branches into one convolution; post_bn stays, the block stays trainable.
  void fuse_partially();
  /// Also post_bn; parameters no longer require gradients.
  void fuse_fully();
  State state_of_fusion() const { return state_; }
  /// Another number of input channels in every branch (stems only), as Conv2d::replace_inputs.
  void replace_inputs(int in);

 private:
  struct Branch3x3 final : tensor::Module {
    explicit Branch3x3(const Options& o);
    Conv2d& conv;
    BatchNorm2d& bn;
  };
  std::pair<at::Tensor, at::Tensor> convolve_branches(const at::Tensor& x) const;
  std::pair<at::Tensor, at::Tensor> equivalent_kernel() const;

  Options options_;
  State state_ = State::kBranches;
  at::Tensor alpha_;
  Branch3x3* branch_3x3_;
  Conv2d* branch_1x1_;
  BatchNorm2d* post_bn_ = nullptr;
  Conv2d* rbr_reparam_;
};

/// Spatial pyramid pooling: 1x1 to in/2, the result beside its max-pools (stride 1, same size),
/// 1x1.
class SPP final : public tensor::Module {
 public:
  SPP(int in, int out, std::vector<int> kernels, Act act);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  std::vector<int> kernels_;
  ConvBnAct &cv1_, &cv2_;
};

/// Sets eps and momentum of every batch norm below; values <= 0 leave them as they are.
void set_batch_norm(tensor::Module& module, double eps, double momentum);

}  // namespace sgtrain::nn
