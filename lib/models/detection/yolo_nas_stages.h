// Stages of the YOLO-NAS backbone and neck, with the reference's child names.
#pragma once

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "models/detection/yolo_nas_params.h"
#include "nn/blocks.h"

namespace sgtrain::models::yolo_nas {

enum class BlockType { kQARepVGG, kConv3x3 };

/// alpha * x + drop_path(cv2(cv1(x))), alpha learnable, initially 1.
class Bottleneck final : public tensor::Module {
 public:
  Bottleneck(int channels, BlockType type, nn::Act act, double drop_path_rate);
  at::Tensor forward(const at::Tensor& x) override { return forward_into(nullptr, x, false); }
  /// As the next part of a concatenation, when one is given.
  at::Tensor forward_into(nn::fused::Concatenation* cat, const at::Tensor& x, bool also_dense);

 private:
  at::Tensor alpha_;
  tensor::Module *cv1_, *cv2_;
  nn::QARepVGGBlock* rep_ = nullptr;  // cv2, when it is one
  nn::DropPath* drop_path_;
};

/// Cross-stage partial layer: conv3(dropout(cat(bottlenecks(conv1(x)), conv2(x)))).
class CspLayer final : public tensor::Module {
 public:
  CspLayer(int in, int out, BlockType type, nn::Act act, const CspParams& params);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  bool concat_intermediates_;
  nn::ConvBnAct &conv1_, &conv2_, &conv3_;
  tensor::Sequential& bottlenecks_;
  std::vector<Bottleneck*> chain_;
  nn::Dropout2d& dropout_;
};

/// Backbone stage: a strided QARepVGG block, then a CSP layer of QARepVGG blocks.
class Stage final : public tensor::Module {
 public:
  Stage(int in, const StageParams& params);
  at::Tensor forward(const at::Tensor& x) override;

 private:
  nn::QARepVGGBlock& downsample_;
  CspLayer& blocks_;
};

/// Neck stage upwards: inputs x [B, in, h, w], skip1 at twice, skip2 at four times the resolution.
class UpStage final : public tensor::Module {
 public:
  UpStage(int in, int skip1, int skip2, const NeckStageParams& params);
  /// (x reduced to `out` channels, result at the resolution of skip1).
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& skip1,
                                            const at::Tensor& skip2);
  int out() const { return out_; }

 private:
  int out_;
  nn::ConvBnAct *reduce_skip1_ = nullptr, *reduce_skip2_ = nullptr;
  nn::ConvBnAct* conv_;
  nn::ConvTranspose2d* upsample_;
  nn::ConvBnAct* downsample_;
  nn::ConvBnAct* reduce_after_concat_ = nullptr;
  CspLayer* blocks_;
};

/// Neck stage downwards: x [B, in, h, w], skip at half the resolution.
class DownStage final : public tensor::Module {
 public:
  DownStage(int in, int skip, const NeckStageParams& params);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& skip);
  int out() const { return out_; }

 private:
  int out_;
  nn::ConvBnAct& conv_;
  CspLayer& blocks_;
};

/// Path aggregation neck with four inputs (strides 4, 8, 16, 32) and three outputs (8, 16, 32).
class PanNeck final : public tensor::Module {
 public:
  PanNeck(const std::vector<int>& in, const Params& params);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& features);
  std::vector<int> out() const { return {neck2_.out(), neck3_.out(), neck4_.out()}; }

 private:
  UpStage &neck1_, &neck2_;
  DownStage &neck3_, &neck4_;
};

/// Stem, four stages and spatial pyramid pooling.
class Backbone final : public tensor::Module {
 public:
  explicit Backbone(const Params& params);
  /// Feature maps of `out_layers`, in that order.
  std::vector<at::Tensor> features(const at::Tensor& images);
  const std::vector<int>& out() const { return out_; }
  nn::QARepVGGBlock& stem() { return *stem_; }

 private:
  std::vector<std::string> out_layers_;
  std::vector<int> out_;
  nn::QARepVGGBlock* stem_;
  std::vector<std::pair<std::string, tensor::Module*>> layers_;  // in order of execution
};

}  // namespace sgtrain::models::yolo_nas
