#include <optional>

#include "core/error.h"
#include "losses/assigner.h"
#include "losses/dense_classification.h"
#include "losses/distribution_focal.h"
#include "losses/loss.h"
#include "tensor/boxes.h"

namespace sgtrain::losses {
namespace {

/// Loss of PP-YOLOE (Xu et al. 2022) and YOLO-NAS: classification, GIoU and distribution focal
/// terms over the anchors that an assigner chose, normalised by the sum of assigned scores (at
/// least 1). Output: a dense detector's ("cls_logits", "reg_distri", …); targets: boxes. A batch
/// without objects has a classification term only; all heads still get gradients (zeros).
class PPYoloELoss final : public Loss, public StaticAssignerSwitch {
 public:
  struct Params {
    int num_classes = 0;
    bool use_varifocal_loss = true;   // else focal
    bool use_static_assigner = true;  // ATSS, else task-aligned
    std::optional<int> reg_max;       // highest distance in strides; absent: by the output
    double classification_loss_weight = 1.0;
    double iou_loss_weight = 2.5;
    double dfl_loss_weight = 0.5;
    bool use_batched_assignment = true;

    static Params from(core::Node& n) {
      Params p;
      p.num_classes = n.get<int>("num_classes").in(1, 1 << 20);
      p.use_varifocal_loss = n.get_or("use_varifocal_loss", p.use_varifocal_loss)
                                 .help("varifocal classification loss, else focal");
      p.use_static_assigner = n.get_or("use_static_assigner", p.use_static_assigner)
                                  .help("ATSS, else task-aligned assignment");
      p.reg_max = n.find<int>("reg_max");
      if (p.reg_max && (*p.reg_max < 1 || *p.reg_max > 1024))
        n.problem("reg_max", "must be in [1, 1024]");
      p.classification_loss_weight =
          n.get_or("classification_loss_weight", p.classification_loss_weight).min(0.0);
      p.iou_loss_weight = n.get_or("iou_loss_weight", p.iou_loss_weight).min(0.0);
      p.dfl_loss_weight = n.get_or("dfl_loss_weight", p.dfl_loss_weight).min(0.0);
      p.use_batched_assignment =
          n.get_or("use_batched_assignment", p.use_batched_assignment)
              .help("False: tiny objects far from all predictions get no anchor");
      return p;
    }
  };

  explicit PPYoloELoss(const Params& params)
      : params_(params),
        static_assigner_(make_atss_assigner({.sequential = !params.use_batched_assignment})),
        task_aligned_(make_task_aligned_assigner({.sequential = !params.use_batched_assignment})) {}

  LossResult operator()(const tensor::ModelOutput& output,
                        const tensor::Targets& targets) override {
    const Heads heads = heads_of(output);
    const GroundTruth truth =
        GroundTruth::from(targets.boxes, heads.logits.size(0), params_.num_classes,
                          heads.logits.options().requires_grad(false));
    const Predictions predictions = predictions_of(output, heads);
    const Assigner& assigner = params_.use_static_assigner ? *static_assigner_ : *task_aligned_;
    const Assignment assignment = assigner(predictions, truth);
    return terms(heads, truth, assignment);
  }

  std::string name() const override { return "PPYoloELoss"; }
  std::vector<std::string> component_names() const override {
    return {"PPYoloELoss/loss_cls", "PPYoloELoss/loss_iou", "PPYoloELoss/loss_dfl",
            "PPYoloELoss/loss"};
  }
  void use_static_assigner(bool on) override { params_.use_static_assigner = on; }
  bool uses_static_assigner() const override { return params_.use_static_assigner; }

 private:
  struct Heads {
    at::Tensor logits;   // [B, A, C], float or double
    at::Tensor distri;   // [B, A, 4 * bins]
    at::Tensor points;   // [A, 2] anchor points in strides
    at::Tensor strides;  // [A, 1]
    std::int64_t bins = 0;
  };

  Heads heads_of(const tensor::ModelOutput& output) const {
    const at::Tensor& logits = output["cls_logits"];
    // bf16 and fp16 heads: the loss itself is computed in float.
    const auto dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    Heads heads{
        logits.to(dtype), output["reg_distri"].to(dtype), {}, output["strides"].to(dtype), 0};
    heads.points = output["anchor_points"].to(dtype) / heads.strides;
    heads.bins = heads.distri.size(-1) / 4;
    if (logits.size(-1) != params_.num_classes) {
      throw core::Error(
          "the model predicts " + std::to_string(logits.size(-1)) +
              " classes, but PPYoloELoss has num_classes=" + std::to_string(params_.num_classes),
          "criterion_params.num_classes", "use the model's number of classes in the loss");
    }
    if (params_.reg_max && heads.bins != *params_.reg_max + 1) {
      throw core::Error("the model predicts distances up to " + std::to_string(heads.bins - 1) +
                            ", but PPYoloELoss has reg_max=" + std::to_string(*params_.reg_max),
                        "criterion_params.reg_max", "leave reg_max out: it then follows the model");
    }
    return heads;
  }

  static Predictions predictions_of(const tensor::ModelOutput& output, const Heads& heads) {
    const at::NoGradGuard no_grad;
    const auto dtype = heads.logits.scalar_type();
    Predictions p;
    // What the heads decoded already, when that was done in full precision.
    const bool decoded = output.has("boxes") && output.has("scores") &&
                         output["boxes"].scalar_type() == dtype &&
                         output["cls_logits"].scalar_type() == dtype;
    p.scores = decoded ? output["scores"].detach() : heads.logits.detach().sigmoid();
    p.boxes = decoded ? output["boxes"].detach()
                      : boxes_from_distances(
                            heads.points, expected_distances(heads.distri.detach(), heads.bins)) *
                            heads.strides;
    p.anchors = output["anchors"].to(dtype);
    p.anchor_points = output["anchor_points"].to(dtype);
    const at::Tensor counts = output["num_anchors"].to(at::kCPU, at::kLong).contiguous();
    p.num_anchors.assign(counts.data_ptr<std::int64_t>(),
                         counts.data_ptr<std::int64_t>() + counts.numel());
    return p;
  }

  LossResult terms(const Heads& heads, const GroundTruth& truth,
                   const Assignment& assignment) const {
    const std::int64_t anchors = heads.logits.size(1), classes = heads.logits.size(2);
    const at::Tensor row = assignment.row.flatten();
    const at::Tensor positive = at::nonzero(row >= 0).squeeze(1);  // places in [B * A]
    const at::Tensor own = row.index_select(0, positive);
    const at::Tensor score = assignment.score.flatten().index_select(0, positive);
    const at::Tensor normaliser = assignment.score.sum();

    const at::Tensor class_places = positive * classes + truth.labels.index_select(0, own);
    const auto kind = params_.use_varifocal_loss    ? DenseClassification::kVarifocal
                      : params_.use_static_assigner ? DenseClassification::kFocal
                                                    : DenseClassification::kFocalNoAlpha;
    const at::Tensor cls = dense_classification_sum(heads.logits, class_places, score, kind);

    // From here on only positives; none at all gives sums of nothing, which keep their graph.
    const at::Tensor place = positive % anchors;
    const at::Tensor points = heads.points.index_select(0, place);
    const at::Tensor boxes =
        truth.boxes.index_select(0, own) / heads.strides.index_select(0, place);
    const at::Tensor log_p = heads.distri.flatten(0, 1)
                                 .index_select(0, positive)
                                 .view({-1, 4, heads.bins})
                                 .log_softmax(-1);
    const at::Tensor bins = at::arange(heads.bins, points.options());
    const at::Tensor predicted = boxes_from_distances(points, at::matmul(log_p.exp(), bins));
    const at::Tensor iou = ((1 - tensor::paired_giou(predicted, boxes)) * score).sum();
    const at::Tensor distances =
        at::cat({points - boxes.narrow(1, 0, 2), boxes.narrow(1, 2, 2) - points}, 1)
            .clamp(0, static_cast<double>(heads.bins - 1) - 0.01);
    const at::Tensor dfl = (distribution_focal(log_p, distances) * score).sum();
    return {{{"loss_cls", cls, normaliser, params_.classification_loss_weight, 1.0},
             {"loss_iou", iou, normaliser, params_.iou_loss_weight, 1.0},
             {"loss_dfl", dfl, normaliser, params_.dfl_loss_weight, 1.0}}};
  }

  Params params_;
  std::unique_ptr<Assigner> static_assigner_, task_aligned_;
};

}  // namespace
SGTRAIN_REGISTER(Loss, PPYoloELoss, "PPYoloELoss");
}  // namespace sgtrain::losses
