// YOLO-NAS S, M and L (Deci 2023), as in SuperGradients.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/detection/dfl_heads.h"
#include "models/detection/yolo_nas_params.h"
#include "models/detection/yolo_nas_stages.h"
#include "models/model.h"

namespace sgtrain::models {
namespace {

class YoloNas final : public Model {
 public:
  using Params = yolo_nas::Params;

  explicit YoloNas(const Params& params)
      : backbone_(add<yolo_nas::Backbone>("backbone", params)), out_layers_(params.out_layers) {
    in_channels_ = params.common.in_channels;
    if (!params.common.backbone_mode) {
      neck_ = &add<yolo_nas::PanNeck>("neck", backbone_.out(), params);
      heads_ = &add<yolo_nas::DflHeads>("heads", neck_->out(), params);
    }
    nn::set_batch_norm(*this, params.common.bn_eps, params.common.bn_momentum);
  }

  Task task() const override { return Task::kDetection; }
  int num_classes() const override { return heads_ == nullptr ? 0 : heads_->num_classes(); }
  int input_channels() const override { return in_channels_; }
  int size_divisor() const override { return 32; }

  tensor::ModelOutput run(const at::Tensor& images) override {
    check_size(images);
    const auto features = backbone_.features(images);
    if (heads_ != nullptr) return heads_->run(neck_->forward(features));
    tensor::ModelOutput out;
    for (std::size_t i = 0; i < features.size(); ++i) out.set(out_layers_[i], features[i]);
    return out;
  }

  void replace_head(int num_classes) override {
    if (heads_ != nullptr) heads_->replace_num_classes(num_classes);
  }
  void replace_input_channels(int channels) override {
    backbone_.stem().replace_inputs(channels);
    in_channels_ = channels;
  }

  void fuse(bool full) override {
    apply([full](const std::string&, tensor::Module& module) {
      if (auto* block = dynamic_cast<nn::QARepVGGBlock*>(&module))
        full ? block->fuse_fully() : block->fuse_partially();
    });
  }

  std::vector<std::string> unused_parameters() override {
    std::vector<std::string> out;
    apply([&](const std::string& name, tensor::Module& module) {
      const auto* block = dynamic_cast<nn::QARepVGGBlock*>(&module);
      if (block != nullptr && block->state_of_fusion() == nn::QARepVGGBlock::State::kBranches) {
        out.push_back(name + ".rbr_reparam.");
      }
    });
    return out;
  }
  std::vector<std::string> finetune_prefixes() const override { return {"heads"}; }
  std::vector<std::string> head_parameters() const override {
    std::vector<std::string> out;
    if (heads_ == nullptr) return out;
    for (const std::string& name : heads_->class_parameters()) out.push_back("heads." + name);
    return out;
  }

 private:
  void check_size(const at::Tensor& images) const {
    const auto h = images.size(2), w = images.size(3);
    const int divisor = size_divisor();
    if (h < divisor || w < divisor || h % divisor != 0 || w % divisor != 0) {
      throw core::InputError("YOLO-NAS takes images whose sides are multiples of " +
                                 std::to_string(divisor) + ", found " + std::to_string(h) + "x" +
                                 std::to_string(w),
                             {}, "pad or resize the images to such a size");
    }
  }

  yolo_nas::Backbone& backbone_;
  std::vector<std::string> out_layers_;
  int in_channels_ = 3;
  yolo_nas::PanNeck* neck_ = nullptr;
  yolo_nas::DflHeads* heads_ = nullptr;
};

std::function<Model::Registry::MakerType(core::Node&)> parser(char variant) {
  return [variant](core::Node& node) -> Model::Registry::MakerType {
    auto params = yolo_nas::Params::from(node, variant);
    return [params] { return std::make_unique<YoloNas>(params); };
  };
}

}  // namespace
SGTRAIN_REGISTER_PARSER(Model, parser('s'), "yolo_nas_s");
SGTRAIN_REGISTER_PARSER(Model, parser('m'), "yolo_nas_m");
SGTRAIN_REGISTER_PARSER(Model, parser('l'), "yolo_nas_l");
}  // namespace sgtrain::models
