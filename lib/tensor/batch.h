// What flows between loader, model, loss, metric and postprocess.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::tensor {

/// Ground truth of a batch. Only the fields of the task are defined.
struct Targets {
  /// Classification: int64 [B] class ids, or float [B, C] soft labels (mixup).
  at::Tensor labels;
  /// Detection: float [N, 6] rows (image index in the batch, class, cx, cy, w, h), pixels of the
  /// network input; N may be 0.
  at::Tensor boxes;
  /// Detection: crowd regions, same layout as boxes; N may be 0.
  at::Tensor crowd_boxes;
  /// Segmentation: int64 [B, H, W].
  at::Tensor masks;

  Targets to(at::Device device) const;
};

/// One mini-batch as it leaves the loader.
struct Batch {
  at::Tensor images;  // uint8 [B, H, W, C] (NHWC in memory), RGB unless the recipe says otherwise
  Targets targets;
  std::vector<std::int64_t> indices;               // index of each image in its data set
  std::vector<std::pair<int, int>> original_size;  // (height, width) of each file

  std::int64_t size() const { return images.size(0); }
};

/// What a network returns: named tensors, in the order in which the reference implementation
/// returns them. Names are part of the contract between a model family, its losses and its
/// postprocess: classification "logits" [B, C]; dense detection (YOLO-NAS, PP-YOLOE) "boxes"
/// [B, A, 4] xyxy pixels, "scores" [B, A, C] in 0..1, "cls_logits" [B, A, C], "reg_distri"
/// [B, A, 4*(reg_max+1)], "anchors" [A, 4] xyxy pixels, "anchor_points" [A, 2] pixels,
/// "num_anchors" int64 [levels], "strides" [A, 1].
class ModelOutput {
 public:
  ModelOutput() = default;
  ModelOutput(std::initializer_list<std::pair<std::string, at::Tensor>> items) : items_(items) {}

  void set(std::string name, at::Tensor tensor) {
    items_.emplace_back(std::move(name), std::move(tensor));
  }
  bool has(std::string_view name) const;
  /// An error lists the names that are there.
  const at::Tensor& operator[](std::string_view name) const;
  const std::vector<std::pair<std::string, at::Tensor>>& items() const { return items_; }

 private:
  std::vector<std::pair<std::string, at::Tensor>> items_;
};

}  // namespace sgtrain::tensor
