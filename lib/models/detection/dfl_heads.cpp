#include "models/detection/dfl_heads.h"

#include <cmath>

namespace sgtrain::models::yolo_nas {
namespace {

/// [B, C, H, W] -> [B, H * W, C]; free of copies for a channels_last tensor.
at::Tensor to_rows(const at::Tensor& map) {
  return map.permute({0, 2, 3, 1}).reshape({map.size(0), map.size(2) * map.size(3), map.size(1)});
}

/// Half-precision predictions (autocast) become float: boxes of hundreds of pixels and the loss
/// need its digits.
at::Tensor at_least_float(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

}  // namespace

// --------------------------------------------------------------- DflHead

DflHead::DflHead(int in, int num_classes, int reg_max, const HeadParams& p) : stride_(p.stride) {
  const int inter = p.inter_channels;
  const int groups = p.first_conv_group_size > 0 ? inter / p.first_conv_group_size : 1;
  stem_ = &add<nn::ConvBnRelu>("stem", in, inter, 1, 1);
  const auto branch = [&](const char* name) {
    auto& convs = add<tensor::Sequential>(name);
    if (p.first_conv_group_size != 0) convs.push<nn::ConvBnRelu>(inter, inter, 3, 1, groups);
    convs.push<nn::ConvBnRelu>(inter, inter, 3, 1);
    return &convs;
  };
  cls_convs_ = branch("cls_convs");
  reg_convs_ = branch("reg_convs");
  cls_pred_ = &add<nn::Conv2d>("cls_pred", nn::ConvOptions{.in = inter, .out = num_classes});
  reg_pred_ = &add<nn::Conv2d>("reg_pred", nn::ConvOptions{.in = inter, .out = 4 * (reg_max + 1)});
  cls_dropout_ = &add<nn::Dropout2d>("cls_dropout_rate", p.cls_dropout_rate);
  reg_dropout_ = &add<nn::Dropout2d>("reg_dropout_rate", p.reg_dropout_rate);
  // Every anchor starts as background with probability 0.99 (RetinaNet, Lin et al. 2017).
  constexpr double kPriorProbability = 1e-2;
  const at::NoGradGuard no_grad;
  cls_pred_->bias.fill_(-std::log((1.0 - kPriorProbability) / kPriorProbability));
}

std::pair<at::Tensor, at::Tensor> DflHead::forward_both(const at::Tensor& input) {
  const at::Tensor x = stem_->forward(input);
  const at::Tensor classes = cls_pred_->forward(cls_dropout_->forward(cls_convs_->forward(x)));
  const at::Tensor sides = reg_pred_->forward(reg_dropout_->forward(reg_convs_->forward(x)));
  return {sides, classes};
}

// --------------------------------------------------------------- anchors

Anchors make_anchors(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
                     const std::vector<int>& strides, double cell_scale, double cell_offset,
                     const at::TensorOptions& options) {
  std::vector<at::Tensor> boxes, points, grid_points, stride_rows;
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [h, w] = sizes[i];
    const double stride = strides[i];
    const at::Tensor y = at::arange(h, options) + cell_offset;
    const at::Tensor x = at::arange(w, options) + cell_offset;
    const auto grid = at::meshgrid({y, x}, "ij");
    const at::Tensor cells = at::stack({grid[1], grid[0]}, -1).reshape({-1, 2});
    const at::Tensor centres = cells * stride;
    const double half = cell_scale * stride * 0.5;
    grid_points.push_back(cells);
    points.push_back(centres);
    boxes.push_back(at::cat({centres - half, centres + half}, 1));
    stride_rows.push_back(at::full({h * w, 1}, stride, options));
    counts.push_back(h * w);
  }
  return {at::cat(boxes), at::cat(points), at::cat(grid_points), at::cat(stride_rows),
          at::tensor(counts, at::TensorOptions(at::kLong))};
}

// -------------------------------------------------------------- DflHeads

DflHeads::DflHeads(const std::vector<int>& in, const Params& p)
    : num_classes_(p.common.num_classes),
      reg_max_(p.reg_max),
      cell_scale_(p.grid_cell_scale),
      cell_offset_(p.grid_cell_offset) {
  add_buffer("bins", bins_, at::arange(p.reg_max + 1, at::kFloat), /*persistent=*/false);
  for (std::size_t i = 0; i < p.heads.size(); ++i) {
    const std::string name = "head" + std::to_string(i + 1);
    heads_.push_back(&add<DflHead>(name, in.at(i), num_classes_, reg_max_, p.heads[i]));
    strides_.push_back(p.heads[i].stride);
  }
}

const Anchors& DflHeads::anchors_for(const std::vector<at::Tensor>& features,
                                     const at::TensorOptions& options) {
  std::vector<std::pair<std::int64_t, std::int64_t>> sizes;
  for (std::size_t i = 0; i < heads_.size(); ++i)
    sizes.emplace_back(features.at(i).size(2), features.at(i).size(3));
  const bool valid = sizes == cached_sizes_ && cached_.boxes.dtype() == options.dtype() &&
                     cached_.boxes.device() == options.device();
  if (!valid) {
    cached_ = make_anchors(sizes, strides_, cell_scale_, cell_offset_, options);
    cached_sizes_ = sizes;
  }
  return cached_;
}

tensor::ModelOutput DflHeads::run(const std::vector<at::Tensor>& features) {
  std::vector<at::Tensor> logits, sides;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const auto [reg, cls] = heads_[i]->forward_both(features.at(i));
    sides.push_back(at_least_float(to_rows(reg)));
    logits.push_back(at_least_float(to_rows(cls)));
  }
  const at::Tensor cls_logits = at::cat(logits, 1);
  const at::Tensor reg_distri = at::cat(sides, 1);
  const Anchors& anchors = anchors_for(features, reg_distri.options().requires_grad(false));

  at::Tensor boxes, scores;
  {
    const at::AutoGradMode decode_with_graph(at::GradMode::is_enabled() && !is_training());
    const at::Tensor bins = bins_.to(reg_distri.scalar_type());
    const at::Tensor distances = at::matmul(
        at::softmax(reg_distri.unflatten(2, {4, reg_max_ + 1}), 3), bins);  // [B, A, 4] in cells
    const auto parts = distances.chunk(2, 2);
    boxes = at::cat({anchors.grid_points - parts[0], anchors.grid_points + parts[1]}, 2) *
            anchors.strides;
    scores = cls_logits.sigmoid();
  }
  return {{"boxes", boxes},
          {"scores", scores},
          {"cls_logits", cls_logits},
          {"reg_distri", reg_distri},
          {"anchors", anchors.boxes},
          {"anchor_points", anchors.points},
          {"num_anchors", anchors.counts},
          {"strides", anchors.strides}};
}

void DflHeads::replace_num_classes(int num_classes) {
  for (DflHead* head : heads_) head->cls_pred().replace_outputs(num_classes);
  num_classes_ = num_classes;
}

std::vector<std::string> DflHeads::class_parameters() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < heads_.size(); ++i) {
    const std::string prefix = "head" + std::to_string(i + 1) + ".cls_pred.";
    out.push_back(prefix + "weight");
    out.push_back(prefix + "bias");
  }
  return out;
}

}  // namespace sgtrain::models::yolo_nas
