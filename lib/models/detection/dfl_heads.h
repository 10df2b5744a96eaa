// The detection heads of YOLO-NAS: class scores and box sides as distributions over bins
// (Generalized Focal Loss, Li et al. 2020), decoded to boxes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/detection/yolo_nas_params.h"
#include "nn/blocks.h"
#include "tensor/batch.h"

namespace sgtrain::models::yolo_nas {

/// One level: stem, a class branch and a box branch.
class DflHead final : public tensor::Module {
 public:
  DflHead(int in, int num_classes, int reg_max, const HeadParams& params);
  /// (regression [B, 4 (reg_max + 1), H, W], class logits [B, C, H, W]).
  std::pair<at::Tensor, at::Tensor> forward_both(const at::Tensor& x);
  nn::Conv2d& cls_pred() { return *cls_pred_; }
  int stride() const { return stride_; }

 private:
  int stride_;
  nn::ConvBnRelu* stem_;
  tensor::Sequential *cls_convs_, *reg_convs_;
  nn::Conv2d *cls_pred_, *reg_pred_;
  nn::Dropout2d *cls_dropout_, *reg_dropout_;
};

/// Anchors of all levels, for feature maps of the given sizes; see ModelOutput for names and units.
struct Anchors {
  at::Tensor boxes, points, grid_points, strides, counts;
};
Anchors make_anchors(const std::vector<std::pair<std::int64_t, std::int64_t>>& sizes,
                     const std::vector<int>& strides, double cell_scale, double cell_offset,
                     const at::TensorOptions& options);

class DflHeads final : public tensor::Module {
 public:
  DflHeads(const std::vector<int>& in, const Params& params);
  /// Output as ModelOutput documents for dense detection. In training "boxes" and "scores" carry
  /// no graph: losses decode the raw predictions themselves.
  tensor::ModelOutput run(const std::vector<at::Tensor>& features);
  int num_classes() const { return num_classes_; }
  void replace_num_classes(int num_classes);
  std::vector<std::string> class_parameters() const;

 private:
  const Anchors& anchors_for(const std::vector<at::Tensor>& features,
                             const at::TensorOptions& options);

  int num_classes_, reg_max_;
  double cell_scale_, cell_offset_;
  at::Tensor bins_;  // 0, 1, … reg_max
  std::vector<DflHead*> heads_;
  std::vector<int> strides_;
  std::vector<std::pair<std::int64_t, std::int64_t>> cached_sizes_;
  Anchors cached_;
};

}  // namespace sgtrain::models::yolo_nas
