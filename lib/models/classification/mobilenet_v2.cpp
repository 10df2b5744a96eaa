// MobileNetV2, Sandler et al. 2018 (arXiv 1801.04381).
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
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

/// A row of `structure`: expansion t, channels c, repeats n, stride s of the first repeat.
struct StageSpec {
  int expansion, channels, repeats, stride;
};

const std::vector<StageSpec> kPaperStructure{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                             {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                             {6, 320, 1, 1}};

int make_divisible(double x) {
  return static_cast<int>(std::ceil(x / 8.0)) * 8;
}

/// A chain of conv -> bn [-> ReLU6] with Python's numbering (conv n, bn n+1, activation n+2).
class ConvChain final : public tensor::Module {
 public:
  void push(const nn::ConvOptions& options, Act act) {
    auto& conv = add<nn::Conv2d>(std::to_string(next_), options);
    auto& bn = add<nn::BatchNorm2d>(std::to_string(next_ + 1), options.out);
    next_ += 3;  // a linear layer is always the last, its missing activation leaves no gap
    links_.push_back({&conv, &bn, act});
  }
  at::Tensor forward(const at::Tensor& input) override {
    at::Tensor x = input;
    for (const Link& link : links_) x = link.bn->forward_act(link.conv->forward(x), link.act);
    return x;
  }
  /// The same with `residual` added after the last (linear) layer.
  at::Tensor forward_add(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i + 1 < links_.size(); ++i) {
      x = links_[i].bn->forward_act(links_[i].conv->forward(x), links_[i].act);
    }
    return links_.back().bn->forward_add_act(links_.back().conv->forward(x), input,
                                             links_.back().act);
  }
  nn::Conv2d& first() { return *links_.front().conv; }

 private:
  struct Link {
    nn::Conv2d* conv;
    nn::BatchNorm2d* bn;
    Act act;
  };
  int next_ = 0;
  std::vector<Link> links_;
};

class InvertedResidual final : public tensor::Module {
 public:
  InvertedResidual(int in, int out, int stride, int expansion, int channels_per_group)
      : add_input_(stride == 1 && in == out), chain_(add<ConvChain>("conv")) {
    const int hidden = in * expansion;
    if (expansion != 1)
      chain_.push({.in = in, .out = hidden, .kernel = 1, .bias = false}, Act::kRelu6);
    chain_.push({.in = hidden,
                 .out = hidden,
                 .kernel = 3,
                 .stride = stride,
                 .padding = 1,
                 .groups = hidden / channels_per_group,
                 .bias = false},
                Act::kRelu6);
    chain_.push({.in = hidden, .out = out, .kernel = 1, .bias = false}, Act::kIdentity);
  }
  at::Tensor forward(const at::Tensor& x) override {
    return add_input_ ? chain_.forward_add(x) : chain_.forward(x);
  }

 private:
  bool add_input_;
  ConvChain& chain_;
};

class MobileNetV2 final : public Model {
 public:
  struct Params {
    CommonParams common;
    double width_mult = 1.0;
    double dropout = 0.0;        // before the classifier
    int channels_per_group = 1;  // of the 3x3 convolutions; 1: depthwise
    std::vector<StageSpec> structure = kPaperStructure;

    /// @param width factor of the preset; nullopt: `width_mult` and `structure` come from the
    /// recipe
    static Params from(core::Node& n, std::optional<double> width) {
      Params p{.common = CommonParams::from(n)};
      p.dropout =
          n.get_or("dropout|dropout_prob", 0.0).in(0.0, 0.999).help("before the classifier");
      p.channels_per_group = n.get_or("grouped_conv_size", 1).in(1, kMaxChannels);
      if (width) {
        p.width_mult = *width;
        // The reference's recipes carry both keys, empty, for the presets too.
        n.child("width_mult").read_all();
        n.child("structure").read_all();
        return p;
      }
      p.width_mult =
          n.get_or("width_mult", 1.0).in(1.0 / 64, 64).help("factor of all channel counts");
      if (n.has("structure")) p.structure = read_structure(n.child("structure"));
      return p;
    }

   private:
    static std::vector<StageSpec> read_structure(core::Node list) {
      std::vector<StageSpec> out;
      for (std::size_t i = 0; list.is_list() && i < list.size(); ++i) {
        core::Node item = list.item(i);
        const auto row = item.as<std::vector<int>>();
        const bool valid = row.size() == 4 && row[0] >= 1 && row[0] <= 64 && row[1] >= 1 &&
                           row[1] <= kMaxChannels && row[2] >= 1 && row[2] <= 1000 &&
                           (row[3] == 1 || row[3] == 2);
        if (valid) {
          out.push_back({row[0], row[1], row[2], row[3]});
        } else {
          item.problem("expected [expansion, channels, repeats, stride 1 or 2]");
        }
      }
      if (out.empty()) list.problem("expected a list of [expansion, channels, repeats, stride]");
      return out;
    }
  };

  explicit MobileNetV2(const Params& params);

  Task task() const override { return Task::kClassification; }
  tensor::ModelOutput run(const at::Tensor& images) override;
  int num_classes() const override { return linear_ == nullptr ? 0 : linear_->out(); }
  int input_channels() const override { return stem_->first().options().in; }
  void replace_head(int num_classes) override {
    if (linear_ != nullptr) linear_->replace_outputs(num_classes);
  }
  void replace_input_channels(int channels) override { stem_->first().replace_inputs(channels); }
  std::vector<std::string> finetune_prefixes() const override { return {"classifier"}; }
  std::vector<std::string> head_parameters() const override {
    if (linear_ == nullptr) return {};
    return {"classifier.1.weight", "classifier.1.bias"};
  }

 private:
  void initialise();

  bool backbone_mode_;
  tensor::Sequential& features_;
  ConvChain* stem_;
  nn::Dropout* dropout_ = nullptr;
  nn::Linear* linear_ = nullptr;
};

MobileNetV2::MobileNetV2(const Params& params)
    : backbone_mode_(params.common.backbone_mode), features_(add<tensor::Sequential>("features")) {
  constexpr int kStemChannels = 32;
  constexpr int kLastChannels = 1280;
  stem_ = &features_.push<ConvChain>();
  stem_->push({.in = params.common.in_channels,
               .out = kStemChannels,
               .kernel = 3,
               .stride = 2,
               .padding = 1,
               .bias = false},
              Act::kRelu6);
  int channels = kStemChannels;
  for (const StageSpec& stage : params.structure) {
    const int out =
        stage.expansion > 1 ? make_divisible(stage.channels * params.width_mult) : stage.channels;
    for (int i = 0; i < stage.repeats; ++i) {
      features_.push<InvertedResidual>(channels, out, i == 0 ? stage.stride : 1, stage.expansion,
                                       params.channels_per_group);
      channels = out;
    }
  }
  const int last =
      params.width_mult > 1.0 ? make_divisible(kLastChannels * params.width_mult) : kLastChannels;
  features_.push<ConvChain>().push({.in = channels, .out = last, .kernel = 1, .bias = false},
                                   Act::kRelu6);
  if (!backbone_mode_) {
    auto& classifier = add<tensor::Sequential>("classifier");
    dropout_ = &classifier.push<nn::Dropout>(params.dropout);
    linear_ = &classifier.push<nn::Linear>(last, params.common.num_classes);
  }
  initialise();
  nn::set_batch_norm(*this, params.common.bn_eps, params.common.bn_momentum);
}

/// Convolutions normal with variance 2 / (k² · out), the classifier normal(0, 0.01), bias zero.
void MobileNetV2::initialise() {
  const at::NoGradGuard no_grad;
  apply([](const std::string&, tensor::Module& module) {
    if (auto* conv = dynamic_cast<nn::Conv2d*>(&module)) {
      const nn::ConvOptions& o = conv->options();
      conv->weight.normal_(0.0, std::sqrt(2.0 / (o.kernel * o.kernel * o.out)));
    } else if (auto* linear = dynamic_cast<nn::Linear*>(&module)) {
      linear->weight.normal_(0.0, 0.01);
      linear->bias.zero_();
    }
  });
}

tensor::ModelOutput MobileNetV2::run(const at::Tensor& images) {
  const at::Tensor x = features_.forward(images);
  if (backbone_mode_) return {{"features", x}};
  return {{"logits", linear_->forward(dropout_->forward(nn::global_average_pool(x)))}};
}

std::function<Model::Registry::MakerType(core::Node&)> parser(std::optional<double> width) {
  return [width](core::Node& node) -> Model::Registry::MakerType {
    auto params = MobileNetV2::Params::from(node, width);
    return [params] { return std::make_unique<MobileNetV2>(params); };
  };
}

}  // namespace
SGTRAIN_REGISTER_PARSER(Model, parser(1.0), "mobilenet_v2");
SGTRAIN_REGISTER_PARSER(Model, parser(1.35), "mobile_net_v2_135");
SGTRAIN_REGISTER_PARSER(Model, parser(std::nullopt), "custom_mobilenet_v2");
}  // namespace sgtrain::models
