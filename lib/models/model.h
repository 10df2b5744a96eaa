// The interface of every architecture, its registry, and building one with weights.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <vector>

#include "core/registry.h"
#include "tensor/batch.h"
#include "tensor/module.h"

namespace sgtrain::models {

enum class Task { kClassification, kDetection, kSegmentation, kPose };

class Model : public tensor::Module {
 public:
  using Registry = core::Registry<Model>;
  static Registry& registry();

  virtual Task task() const = 0;

  /// @param images float [B, C, H, W] (channels_last preferred), normalised as the recipe says.
  /// @returns the same entries in training and evaluation. Classification: "logits" [B, K].
  /// Detection: what losses and decoders of its family read (models/detection/dfl_heads.h). In
  /// backbone mode: "features" [B, C, H, W] only.
  virtual tensor::ModelOutput run(const at::Tensor& images) = 0;

  /// The network that learns: the student of a KDModule. It alone is optimised and averaged.
  virtual Model& trained() { return *this; }

  virtual int num_classes() const = 0;
  virtual int input_channels() const = 0;
  /// Height and width must be multiples of this (32 for YOLO-NAS; 1: any size).
  virtual int size_divisor() const { return 1; }

  /// New class-dependent layers, as SuperGradients' replace_head does; all else keeps its weights.
  virtual void replace_head(int num_classes) = 0;
  /// New first convolution: fewer channels keep the first k, more are drawn from the weights' mean
  /// and standard deviation.
  virtual void replace_input_channels(int channels) = 0;

  /// Fuses blocks for inference (RepVGG branches, batch norms). `full` also folds post-BN and
  /// detaches; partial fusion stays trainable. Default: nothing to fuse.
  virtual void fuse(bool full) { static_cast<void>(full); }

  /// Names (prefixes) of parameters that never take part in training (a RepVGG block's
  /// placeholder): left out of reducers and gradient checks.
  virtual std::vector<std::string> unused_parameters() { return {}; }

  /// Names of the parameters whose first dimension is the number of classes (what replace_head
  /// draws anew); empty: the model has no such head. A checkpoint's class count is read from them.
  virtual std::vector<std::string> head_parameters() const { return {}; }

  /// Prefixes of the parameters that `finetune: True` trains; empty: not supported.
  virtual std::vector<std::string> finetune_prefixes() const { return {}; }
};

}  // namespace sgtrain::models
