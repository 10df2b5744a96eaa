// Label assignment of dense detectors: which anchor learns which object.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sgtrain::losses {

/// Objects of a batch, in order of their image.
struct GroundTruth {
  at::Tensor boxes;   // [N, 4] xyxy pixels, dtype of the predictions
  at::Tensor labels;  // int64 [N]
  std::vector<std::int64_t>
      offsets;  // [B + 1]: rows of image b are offsets[b] … offsets[b + 1] - 1

  std::int64_t images() const { return static_cast<std::int64_t>(offsets.size()) - 1; }

  /// From rows (image, class, cx, cy, w, h); their order within each image is kept. On a GPU this
  /// waits once for the first two columns.
  /// @throws Error for a class outside [0, num_classes) or an image outside the batch.
  static GroundTruth from(const at::Tensor& targets, std::int64_t batch_size, int num_classes,
                          const at::TensorOptions& like);
};

/// What a network predicts; without gradients. A anchors, C classes.
struct Predictions {
  at::Tensor scores;                      // [B, A, C] in 0..1
  at::Tensor boxes;                       // [B, A, 4] xyxy pixels
  at::Tensor anchors;                     // [A, 4] xyxy pixels
  at::Tensor anchor_points;               // [A, 2] pixels
  std::vector<std::int64_t> num_anchors;  // of each level; the sum is A
};

/// For each anchor its object and how much the anchor should believe in it.
struct Assignment {
  at::Tensor row;    // int64 [B, A]: row of the ground truth, -1: background
  at::Tensor score;  // [B, A]: 0 for background
};

/// What a CPU kernel sees of one image: plain arrays, all row-major.
template <class T>
struct ImageView {
  const T *scores, *boxes;    // [A, C], [A, 4]
  const T *anchors, *points;  // [A, 4], [A, 2]
  const T* gt_boxes;          // [N, 4]
  const std::int64_t* gt_labels;
  std::int64_t num_anchors, num_classes, num_objects;
  std::span<const std::int64_t> levels;  // anchors of each level
  std::int64_t* row;                     // [A] out: row of gt_boxes, filled with -1 before
  T* score;                              // [A] out, filled with 0 before
};

class Assigner {
 public:
  virtual ~Assigner() = default;

  /// On the CPU images are worked on in parallel by plain loops; on other devices by tensor
  /// operations. Memory stays bounded however many objects an image has.
  Assignment operator()(const Predictions& predictions, const GroundTruth& truth) const;

  /// Tensor operations on any device, in blocks of objects. Differs from the loops at most where
  /// two anchors are equally good.
  Assignment by_tensors(const Predictions& predictions, const GroundTruth& truth) const;

 protected:
  /// The tensors of one image; rows of `gt_boxes` and `gt_labels` are its objects (one or more).
  struct Image {
    at::Tensor scores, boxes;  // [A, C], [A, 4]
    at::Tensor gt_boxes, gt_labels;
    const Predictions& all;
  };
  struct ImageAssignment {
    at::Tensor row;    // int64 [A]: row of gt_boxes, or -1
    at::Tensor score;  // [A]; read only where row ≥ 0
  };
  virtual ImageAssignment assign(const Image& image) const = 0;
  virtual void assign(const ImageView<float>& image) const = 0;
  virtual void assign(const ImageView<double>& image) const = 0;

  /// Objects in one block for A anchors: a [rows, A] matrix stays within a few megabytes.
  static std::int64_t block_rows(std::int64_t anchors);

 private:
  template <class T>
  Assignment by_loops(const Predictions& predictions, const GroundTruth& truth) const;
};

/// Settles which object an anchor belongs to when several want it: the one it overlaps most, among
/// all objects of the image. Fed block by block (tensor operations).
class AnchorOwners {
 public:
  AnchorOwners(std::int64_t anchors, const at::TensorOptions& like);
  /// @param first row of the block's first object
  /// @param candidates int64 [m, k] anchors that the m objects want, where `wanted` [m, k] is true
  /// @param ious [m, A] overlaps of objects and anchors
  void add(std::int64_t first, const at::Tensor& candidates, const at::Tensor& wanted,
           const at::Tensor& ious);
  /// int64 [A]: row of the owner, -1: nobody wants the anchor.
  at::Tensor owners() const;

 private:
  at::Tensor wanted_by_;  // int64 [A]: how many objects
  at::Tensor last_;       // int64 [A]: highest row that wants it
  at::Tensor best_iou_, best_;
};

/// Bool [m, A]: points [A, 2] strictly inside boxes [m, 4].
at::Tensor points_inside(const at::Tensor& points, const at::Tensor& boxes);

struct TaskAlignedParams {
  int topk = 13;       // anchors that an object may get
  double alpha = 1.0;  // exponent of the score
  double beta = 6.0;   // exponent of the overlap
  double eps = 1e-9;
  /// As SuperGradients assigns image by image (use_batched_assignment: False): objects whose best
  /// anchor's metric is below eps get none (tiny objects far from all predictions). Batched,
  /// objects whose coordinates sum to 0 or less get none.
  bool sequential = false;
};
/// Task-aligned assignment, Feng et al. 2021 (TOOD): the anchors with the highest
/// score^alpha · IoU^beta among those whose point lies in the object.
std::unique_ptr<Assigner> make_task_aligned_assigner(const TaskAlignedParams& params);

struct AtssParams {
  int topk = 9;             // anchors by nearness of the centres, from each level
  bool sequential = false;  // as above; here objects left of or above the image then count too
};
/// Adaptive training sample selection, Zhang et al. 2020: of the nearest anchors of each level
/// those whose overlap exceeds mean + standard deviation. Scores are the overlaps of predictions.
std::unique_ptr<Assigner> make_atss_assigner(const AtssParams& params);

/// A loss whose assigner changes in the course of the training: static (ATSS) at first, then
/// task-aligned. The stage-switch callback asks the loss for it with dynamic_cast.
class StaticAssignerSwitch {
 public:
  virtual ~StaticAssignerSwitch() = default;
  virtual void use_static_assigner(bool on) = 0;
  virtual bool uses_static_assigner() const = 0;
};

}  // namespace sgtrain::losses
