#include "models/detection/yolo_nas_stages.h"

#include <algorithm>
#include <string>

namespace sgtrain::models::yolo_nas {
namespace {

/// Stem: the block under the child name `conv`.
class Stem final : public tensor::Module {
 public:
  Stem(int in, int out, int stride)
      : conv(add<nn::QARepVGGBlock>(
            "conv", nn::QARepVGGBlock::Options{
                        .in = in, .out = out, .stride = stride, .residual = false})) {}
  at::Tensor forward(const at::Tensor& x) override { return conv.forward(x); }
  nn::QARepVGGBlock& conv;
};

}  // namespace

// ------------------------------------------------------------ Bottleneck

Bottleneck::Bottleneck(int channels, BlockType type, nn::Act act, double drop_path_rate) {
  const auto make = [&](const char* name) -> tensor::Module* {
    if (type == BlockType::kConv3x3)
      return &add<nn::ConvBnAct>(name, channels, channels, 3, 1, act);
    return &add<nn::QARepVGGBlock>(
        name, nn::QARepVGGBlock::Options{.in = channels, .out = channels, .act = act});
  };
  add_parameter("alpha", alpha_, at::ones({1}));
  cv1_ = make("cv1");
  cv2_ = make("cv2");
  rep_ = dynamic_cast<nn::QARepVGGBlock*>(cv2_);
  drop_path_ = &add<nn::DropPath>("drop_path", drop_path_rate);
}

at::Tensor Bottleneck::forward_into(nn::fused::Concatenation* cat, const at::Tensor& x,
                                    bool also_dense) {
  const at::Tensor between = cv1_->forward(x);
  if (rep_ != nullptr && !drop_path_->active())
    return rep_->forward_add(between, alpha_, x, cat, also_dense);
  at::Tensor y = alpha_ * x + drop_path_->forward(cv2_->forward(between));
  if (cat != nullptr) cat->add_copy(y);
  return y;
}

// -------------------------------------------------------------- CspLayer

CspLayer::CspLayer(int in, int out, BlockType type, nn::Act act, const CspParams& p)
    : concat_intermediates_(p.concat_intermediates),
      conv1_(add<nn::ConvBnAct>("conv1", in, p.hidden > 0 ? p.hidden : out / 2, 1, 1, act)),
      conv2_(add<nn::ConvBnAct>("conv2", in, conv1_.conv.options().out, 1, 1, act)),
      conv3_(add<nn::ConvBnAct>(
          "conv3", conv1_.conv.options().out * (2 + (p.concat_intermediates ? p.blocks : 0)), out,
          1, 1, act)),
      bottlenecks_(add<tensor::Sequential>("bottlenecks")),
      dropout_(add<nn::Dropout2d>("dropout", p.dropout_rate)) {
  for (int i = 0; i < p.blocks; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const double rate = index < p.drop_path_rates.size() ? p.drop_path_rates[index] : 0.0;
    chain_.push_back(&bottlenecks_.push<Bottleneck>(conv1_.conv.options().out, type, act, rate));
  }
}

at::Tensor CspLayer::forward(const at::Tensor& x) {
  nn::fused::Concatenation cat(conv3_.conv.options().in);
  at::Tensor y =
      concat_intermediates_ ? conv1_.forward_into(cat, x, /*also_dense=*/true) : conv1_.forward(x);
  for (std::size_t i = 0; i < chain_.size(); ++i) {
    const bool last = i + 1 == chain_.size();
    y = chain_[i]->forward_into(concat_intermediates_ || last ? &cat : nullptr, y,
                                /*also_dense=*/!last);
  }
  conv2_.forward_into(cat, x);
  return conv3_.forward(dropout_.forward(cat.result()));
}

// ----------------------------------------------------------------- Stage

Stage::Stage(int in, const StageParams& p)
    : downsample_(add<nn::QARepVGGBlock>(
          "downsample",
          nn::QARepVGGBlock::Options{
              .in = in, .out = p.out, .stride = p.stride, .act = p.act, .residual = false})),
      blocks_(add<CspLayer>("blocks", p.out, p.out, BlockType::kQARepVGG, p.act, p.csp)) {}

at::Tensor Stage::forward(const at::Tensor& x) {
  return blocks_.forward(downsample_.forward(x));
}

// --------------------------------------------------------------- UpStage

UpStage::UpStage(int in, int skip1, int skip2, const NeckStageParams& p) : out_(p.out) {
  const auto conv = [&](const char* name, int from, int kernel, int stride) {
    return &add<nn::ConvBnAct>(name, from, p.out, kernel, stride, p.act);
  };
  if (p.reduce_channels) {
    reduce_skip1_ = conv("reduce_skip1", skip1, 1, 1);
    reduce_skip2_ = conv("reduce_skip2", skip2, 1, 1);
  }
  conv_ = conv("conv", in, 1, 1);
  upsample_ = &add<nn::ConvTranspose2d>("upsample", p.out, p.out, 2, 2);
  downsample_ = conv("downsample", p.reduce_channels ? p.out : skip2, 3, 2);
  int joined = 2 * p.out + skip1;
  if (p.reduce_channels) {
    reduce_after_concat_ = conv("reduce_after_concat", 3 * p.out, 1, 1);
    joined = p.out;
  }
  blocks_ = &add<CspLayer>("blocks", joined, p.out, BlockType::kQARepVGG, p.act, p.csp);
}

std::pair<at::Tensor, at::Tensor> UpStage::forward(const at::Tensor& x, const at::Tensor& skip1,
                                                   const at::Tensor& skip2) {
  const at::Tensor inter = conv_->forward(x);
  const at::Tensor far = reduce_skip2_ == nullptr ? skip2 : reduce_skip2_->forward(skip2);
  nn::fused::Concatenation cat(2 * out_ + (reduce_skip1_ == nullptr ? skip1.size(1) : out_));
  cat.add_copy(upsample_->forward(inter));
  if (reduce_skip1_ == nullptr) {
    cat.add_copy(skip1);
  } else {
    reduce_skip1_->forward_into(cat, skip1);
  }
  downsample_->forward_into(cat, far);
  at::Tensor joined = cat.result();
  if (reduce_after_concat_ != nullptr) joined = reduce_after_concat_->forward(joined);
  return {inter, blocks_->forward(joined)};
}

// ------------------------------------------------------------- DownStage

DownStage::DownStage(int in, int skip, const NeckStageParams& p)
    : out_(p.out),
      conv_(add<nn::ConvBnAct>("conv", in, p.out / 2, 3, 2, p.act)),
      blocks_(add<CspLayer>("blocks", p.out / 2 + skip, p.out, BlockType::kConv3x3, p.act, p.csp)) {
}

at::Tensor DownStage::forward(const at::Tensor& x, const at::Tensor& skip) {
  nn::fused::Concatenation cat(conv_.conv.options().out + skip.size(1));
  conv_.forward_into(cat, x);
  cat.add_copy(skip);
  return blocks_.forward(cat.result());
}

// --------------------------------------------------------------- PanNeck

PanNeck::PanNeck(const std::vector<int>& in, const Params& p)
    : neck1_(add<UpStage>("neck1", in.at(3), in.at(2), in.at(1), p.neck1)),
      neck2_(add<UpStage>("neck2", neck1_.out(), in.at(1), in.at(0), p.neck2)),
      neck3_(add<DownStage>("neck3", neck2_.out(), neck2_.out(), p.neck3)),
      neck4_(add<DownStage>("neck4", neck3_.out(), neck1_.out(), p.neck4)) {}

std::vector<at::Tensor> PanNeck::forward(const std::vector<at::Tensor>& c) {
  const auto [inter1, x] = neck1_.forward(c.at(3), c.at(2), c.at(1));
  const auto [inter2, p3] = neck2_.forward(x, c.at(1), c.at(0));
  const at::Tensor p4 = neck3_.forward(p3, inter2);
  const at::Tensor p5 = neck4_.forward(p4, inter1);
  return {p3, p4, p5};
}

// -------------------------------------------------------------- Backbone

Backbone::Backbone(const Params& p) : out_layers_(p.out_layers) {
  int channels = p.stem_out;
  const auto note = [&](const std::string& name, tensor::Module& module) {
    layers_.emplace_back(name, &module);
    if (std::find(out_layers_.begin(), out_layers_.end(), name) != out_layers_.end())
      out_.push_back(channels);
  };
  auto& stem = add<Stem>("stem", p.common.in_channels, p.stem_out, p.stem_stride);
  stem_ = &stem.conv;
  note("stem", stem);
  for (std::size_t i = 0; i < p.stages.size(); ++i) {
    const std::string name = "stage" + std::to_string(i + 1);
    auto& stage = add<Stage>(name, channels, p.stages[i]);
    channels = p.stages[i].out;
    note(name, stage);
  }
  auto& context =
      add<nn::SPP>("context_module", channels, p.context_out, p.context_kernels, p.context_act);
  channels = p.context_out;
  note("context_module", context);
}

std::vector<at::Tensor> Backbone::features(const at::Tensor& images) {
  std::vector<at::Tensor> out;
  at::Tensor x = images;
  for (const auto& [name, layer] : layers_) {
    x = layer->forward(x);
    if (std::find(out_layers_.begin(), out_layers_.end(), name) != out_layers_.end())
      out.push_back(x);
  }
  return out;
}

}  // namespace sgtrain::models::yolo_nas
