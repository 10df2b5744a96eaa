// The layers that architectures are made of, with PyTorch's names, defaults and initialisation.
#pragma once

#include <ATen/ATen.h>

#include "nn/activation.h"
#include "nn/conv.h"
#include "tensor/module.h"

namespace sgtrain::dist {
class Communicator;
}

namespace sgtrain::nn {

namespace fused {
struct Destination;
}

/// Weight and bias uniform in ±1/√fan_in (He et al. 2015 with a = √5), fan_in from weight dim 1.
void init_uniform_fan_in(at::Tensor& weight, at::Tensor& bias);

class Conv2d final : public tensor::Module {
 public:
  explicit Conv2d(const ConvOptions& options);
  at::Tensor forward(const at::Tensor& x) override;
  const ConvOptions& options() const { return options_; }

  /// New output channels: weights and bias drawn from mean and deviation of those they replace
  /// (SuperGradients' replace_num_classes_with_random_weights).
  void replace_outputs(int out);
  /// New input channels: the first min(old, new) are kept, further ones drawn from mean and
  /// deviation of the old weights.
  void replace_inputs(int in);

  at::Tensor weight, bias;

 private:
  ConvOptions options_;
};

/// Input [B, in, H, W]; weight [in, out, k, k]; output (H - 1) * stride + k.
class ConvTranspose2d final : public tensor::Module {
 public:
  ConvTranspose2d(int in, int out, int kernel, int stride, bool bias = true);
  at::Tensor forward(const at::Tensor& x) override;

  at::Tensor weight, bias;

 private:
  int stride_;
};

class Linear final : public tensor::Module {
 public:
  Linear(int in, int out, bool bias = true);
  at::Tensor forward(const at::Tensor& x) override { return at::linear(x, weight, bias); }
  int in() const { return static_cast<int>(weight.size(1)); }
  int out() const { return static_cast<int>(weight.size(0)); }
  /// New, freshly initialised outputs.
  void replace_outputs(int out);

  at::Tensor weight, bias;
};

/// Batch normalisation over [B, C, H, W] (Ioffe & Szegedy 2015). In training the batch's statistics
/// are used and the running ones updated: r = (1 - momentum) r + momentum * batch (variance
/// unbiased); in evaluation the running ones are used.
class BatchNorm2d final : public tensor::Module {
 public:
  explicit BatchNorm2d(int channels, double eps = 1e-5, double momentum = 0.1);
  at::Tensor forward(const at::Tensor& x) override;
  /// act(bn(x)) and act(bn(x) + residual) without intermediate tensors where possible.
  at::Tensor forward_act(const at::Tensor& x, Act act);
  at::Tensor forward_add_act(const at::Tensor& x, const at::Tensor& residual, Act act);
  /// act(bn(x)), also or only in a slice of a concatenation (fused/concat.h).
  at::Tensor forward_act(const at::Tensor& x, Act act, const fused::Destination& destination);
  /// Whether this layer's work on x may be done inside the operations of nn/fused.
  bool fusable(const at::Tensor& x) const;

  /// Checks the input of a training step and counts it; called by fused functions that do this
  /// layer's work.
  void count_batch(const at::Tensor& x);
  /// Scale and shift of evaluation: y = x * scale + shift, both [C], differentiable.
  std::pair<at::Tensor, at::Tensor> folded() const;

  /// Statistics over all ranks in training (nn/sync_batch_norm.h): no fused function may then take
  /// over.
  bool synchronised() const { return sync != nullptr && is_training(); }

  double eps, momentum;
  dist::Communicator* sync = nullptr;  // of the ranks that share statistics; not owned
  at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
};

class MaxPool2d final : public tensor::Module {
 public:
  MaxPool2d(int kernel, int stride, int padding)
      : kernel_(kernel), stride_(stride), padding_(padding) {}
  at::Tensor forward(const at::Tensor& x) override;

 private:
  int kernel_, stride_, padding_;
};

/// Mean over H and W: [B, C, H, W] -> [B, C].
at::Tensor global_average_pool(const at::Tensor& x);

class Identity final : public tensor::Module {
 public:
  at::Tensor forward(const at::Tensor& x) override { return x; }
};

/// Zeroes elements with probability p in training and scales the rest by 1/(1-p).
class Dropout final : public tensor::Module {
 public:
  explicit Dropout(double p) : p(p) {}
  at::Tensor forward(const at::Tensor& x) override;
  double p;
};

/// The same for whole channels.
class Dropout2d final : public tensor::Module {
 public:
  explicit Dropout2d(double p) : p(p) {}
  at::Tensor forward(const at::Tensor& x) override;
  double p;
};

/// Stochastic depth (Huang et al. 2016): zeroes whole samples with probability p in training and
/// scales the rest by 1/(1-p).
class DropPath final : public tensor::Module {
 public:
  explicit DropPath(double p) : p(p) {}
  at::Tensor forward(const at::Tensor& x) override;
  bool active() const { return is_training() && p > 0.0; }
  double p;
};

/// int(original * factor), rounded up to a multiple of `divisor` when that is positive.
int width_multiplier(int original, double factor, int divisor = 0);

}  // namespace sgtrain::nn
