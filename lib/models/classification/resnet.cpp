// Residual networks, He et al. 2015 (arXiv 1512.03385), in SuperGradients' two forms: ImageNet stem
// (7x7 stride 2, max-pool) and CIFAR stem (3x3 stride 1).
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/common_params.h"
#include "models/model.h"
#include "nn/blocks.h"
#include "nn/layers.h"

namespace sgtrain::models {
namespace {

using nn::Act;

struct BlockShape {
  int in, planes, stride, expansion;
  double droppath_prob;
};

nn::ConvOptions conv3x3(int in, int out, int stride) {
  return {.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}
nn::ConvOptions conv1x1(int in, int out, int stride = 1) {
  return {.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false};
}

/// conv -> bn, Python's numeric names "0" and "1".
class ConvNorm final : public tensor::Module {
 public:
  explicit ConvNorm(const nn::ConvOptions& options)
      : conv(add<nn::Conv2d>("0", options)), bn(add<nn::BatchNorm2d>("1", options.out)) {}
  at::Tensor forward(const at::Tensor& x) override { return bn.forward(conv.forward(x)); }

  nn::Conv2d& conv;
  nn::BatchNorm2d& bn;
};

/// What both kinds of block do after their last convolution: relu(drop_path(bn(x)) + shortcut).
class ResidualBlock : public tensor::Module {
 protected:
  void add_tail(const BlockShape& s) {
    drop_path_ = &add<nn::DropPath>("drop_path", s.droppath_prob);
    if (s.stride != 1 || s.in != s.expansion * s.planes) {
      shortcut_ = &add<ConvNorm>("shortcut", conv1x1(s.in, s.expansion * s.planes, s.stride));
    }
  }
  at::Tensor tail(nn::BatchNorm2d& bn, const at::Tensor& x, const at::Tensor& input) {
    const at::Tensor skip = shortcut_ == nullptr ? input : shortcut_->forward(input);
    if (!drop_path_->active()) return bn.forward_add_act(x, skip, Act::kRelu);
    return nn::activate(Act::kRelu, drop_path_->forward(bn.forward(x)).add_(skip), true);
  }

 private:
  nn::DropPath* drop_path_ = nullptr;
  ConvNorm* shortcut_ = nullptr;
};

class BasicBlock final : public ResidualBlock {
 public:
  explicit BasicBlock(const BlockShape& s)
      : conv1_(add<nn::Conv2d>("conv1", conv3x3(s.in, s.planes, s.stride))),
        bn1_(add<nn::BatchNorm2d>("bn1", s.planes)),
        conv2_(add<nn::Conv2d>("conv2", conv3x3(s.planes, s.planes, 1))),
        bn2_(add<nn::BatchNorm2d>("bn2", s.planes)) {
    add_tail(s);
  }
  at::Tensor forward(const at::Tensor& x) override {
    const at::Tensor y = bn1_.forward_act(conv1_.forward(x), Act::kRelu);
    return tail(bn2_, conv2_.forward(y), x);
  }

 private:
  nn::Conv2d& conv1_;
  nn::BatchNorm2d& bn1_;
  nn::Conv2d& conv2_;
  nn::BatchNorm2d& bn2_;
};

class Bottleneck final : public ResidualBlock {
 public:
  explicit Bottleneck(const BlockShape& s)
      : conv1_(add<nn::Conv2d>("conv1", conv1x1(s.in, s.planes))),
        bn1_(add<nn::BatchNorm2d>("bn1", s.planes)),
        conv2_(add<nn::Conv2d>("conv2", conv3x3(s.planes, s.planes, s.stride))),
        bn2_(add<nn::BatchNorm2d>("bn2", s.planes)),
        conv3_(add<nn::Conv2d>("conv3", conv1x1(s.planes, s.expansion * s.planes))),
        bn3_(add<nn::BatchNorm2d>("bn3", s.expansion * s.planes)) {
    add_tail(s);
  }
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor y = bn1_.forward_act(conv1_.forward(x), Act::kRelu);
    y = bn2_.forward_act(conv2_.forward(y), Act::kRelu);
    return tail(bn3_, conv3_.forward(y), x);
  }

 private:
  nn::Conv2d& conv1_;
  nn::BatchNorm2d& bn1_;
  nn::Conv2d& conv2_;
  nn::BatchNorm2d& bn2_;
  nn::Conv2d& conv3_;
  nn::BatchNorm2d& bn3_;
};

/// What distinguishes the registered names.
struct Preset {
  bool bottleneck = false;
  bool cifar = false;
  // Blocks per stage; empty: `structure` and `width_mult` come from the recipe.
  std::vector<int> structure{};
};

class ResNet final : public Model {
 public:
  struct Params {
    Preset preset;
    CommonParams common;
    double width_mult = 1.0;
    double droppath_prob = 0.0;
    bool input_batchnorm = false;  // a batch norm `bn0` before the first convolution

    static Params from(core::Node& n, const Preset& preset) {
      Params p{.preset = preset, .common = CommonParams::from(n)};
      if (preset.structure.empty()) {
        p.preset.structure =
            n.get<std::vector<int>>("structure|num_blocks")
                .in(0, 1000)
                .help("blocks of the four stages; 0: one 3x3 convolution where the shape changes");
        p.width_mult =
            n.get_or("width_mult", 1.0).in(1.0 / 64, 64).help("factor of all channel counts");
        if (p.preset.structure.size() != 4 && !n.describing() && n.has("structure|num_blocks")) {
          n.problem("structure|num_blocks",
                    "must list four stages, found " + std::to_string(p.preset.structure.size()));
        }
      }
      p.droppath_prob = n.get_or(kDropPathKeys, 0.0)
                            .in(0.0, 0.999)
                            .help("probability of dropping a block, per image");
      p.input_batchnorm = n.get_or("input_batchnorm", false);
      return p;
    }
  };

  explicit ResNet(const Params& params);

  Task task() const override { return Task::kClassification; }
  tensor::ModelOutput run(const at::Tensor& images) override;
  int num_classes() const override { return linear_ == nullptr ? 0 : linear_->out(); }
  int input_channels() const override { return conv1_->options().in; }
  void replace_head(int num_classes) override {
    if (linear_ != nullptr) linear_->replace_outputs(num_classes);
  }
  void replace_input_channels(int channels) override { conv1_->replace_inputs(channels); }
  std::vector<std::string> finetune_prefixes() const override { return {"linear"}; }
  std::vector<std::string> head_parameters() const override {
    return linear_ == nullptr ? std::vector<std::string>{}
                              : std::vector<std::string>{"linear.weight", "linear.bias"};
  }

 private:
  void add_stage(const std::string& name, int planes, int blocks, int stride);

  Params params_;
  int channels_;  // of the last layer added
  nn::BatchNorm2d* bn0_ = nullptr;
  nn::Conv2d* conv1_;
  nn::BatchNorm2d* bn1_;
  std::array<tensor::Sequential*, 4> stages_{};
  nn::Linear* linear_ = nullptr;
};

ResNet::ResNet(const Params& params) : params_(params) {
  const auto width = [&](int planes) {
    return std::max(1, nn::width_multiplier(planes, params.width_mult));
  };
  const bool cifar = params.preset.cifar;
  channels_ = width(64);
  if (params.input_batchnorm) bn0_ = &add<nn::BatchNorm2d>("bn0", params.common.in_channels);
  conv1_ = &add<nn::Conv2d>("conv1", nn::ConvOptions{.in = params.common.in_channels,
                                                     .out = channels_,
                                                     .kernel = cifar ? 3 : 7,
                                                     .stride = cifar ? 1 : 2,
                                                     .padding = cifar ? 1 : 3,
                                                     .bias = false});
  bn1_ = &add<nn::BatchNorm2d>("bn1", channels_);
  for (int i = 0; i < 4; ++i) {
    const auto index = static_cast<std::size_t>(i);
    const std::string name = "layer" + std::to_string(i + 1);
    stages_.at(index) = &add<tensor::Sequential>(name);
    add_stage(name, width(64 << i), params.preset.structure.at(index), i == 0 ? 1 : 2);
  }
  if (!params.common.backbone_mode) {
    linear_ = &add<nn::Linear>("linear", channels_, params.common.num_classes);
  }
  nn::set_batch_norm(*this, params.common.bn_eps, params.common.bn_momentum);
}

void ResNet::add_stage(const std::string& name, int planes, int blocks, int stride) {
  auto& stage = static_cast<tensor::Sequential&>(*child(name));
  const int expansion = params_.preset.bottleneck ? 4 : 1;
  if (blocks == 0 && (stride != 1 || channels_ != planes)) {
    stage.push<ConvNorm>(conv3x3(channels_, planes, stride));
    channels_ = planes;
  }
  for (int i = 0; i < blocks; ++i) {
    const BlockShape shape{channels_, planes, i == 0 ? stride : 1, expansion,
                           params_.droppath_prob};
    if (params_.preset.bottleneck) {
      stage.push<Bottleneck>(shape);
    } else {
      stage.push<BasicBlock>(shape);
    }
    channels_ = planes * expansion;
  }
}

tensor::ModelOutput ResNet::run(const at::Tensor& images) {
  at::Tensor x = bn0_ == nullptr ? images : bn0_->forward(images);
  x = bn1_->forward_act(conv1_->forward(x), Act::kRelu);
  if (!params_.preset.cifar) x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
  for (tensor::Sequential* stage : stages_) x = stage->forward(x);
  if (linear_ == nullptr) return {{"features", x}};
  return {{"logits", linear_->forward(nn::global_average_pool(x))}};
}

std::function<Model::Registry::MakerType(core::Node&)> parser(Preset preset) {
  return [preset](core::Node& node) -> Model::Registry::MakerType {
    auto params = ResNet::Params::from(node, preset);
    return [params] { return std::make_unique<ResNet>(params); };
  };
}

const Preset kResNet18{.structure = {2, 2, 2, 2}};
const Preset kResNet34{.structure = {3, 4, 6, 3}};
const Preset kResNet50{.bottleneck = true, .structure = {3, 4, 6, 3}};
const Preset kResNet50Small{.bottleneck = true, .structure = {3, 3, 4, 3}};
const Preset kResNet101{.bottleneck = true, .structure = {3, 4, 23, 3}};
const Preset kResNet152{.bottleneck = true, .structure = {3, 8, 36, 3}};
const Preset kResNet18Cifar{.cifar = true, .structure = {2, 2, 2, 2}};
const Preset kCustom{};
const Preset kCustom50{.bottleneck = true};
const Preset kCustomCifar{.cifar = true};
const Preset kCustom50Cifar{.bottleneck = true, .cifar = true};

}  // namespace
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet18), "resnet18");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet34), "resnet34");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet50), "resnet50");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet50Small), "resnet50_3343");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet101), "resnet101");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet152), "resnet152");
SGTRAIN_REGISTER_PARSER(Model, parser(kResNet18Cifar), "resnet18_cifar");
SGTRAIN_REGISTER_PARSER(Model, parser(kCustom), "custom_resnet");
SGTRAIN_REGISTER_PARSER(Model, parser(kCustom50), "custom_resnet50");
SGTRAIN_REGISTER_PARSER(Model, parser(kCustomCifar), "custom_resnet_cifar");
SGTRAIN_REGISTER_PARSER(Model, parser(kCustom50Cifar), "custom_resnet50_cifar");
}  // namespace sgtrain::models
