#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "postprocess/nms.h"
#include "postprocess/postprocess.h"

namespace sgtrain::postprocess {
namespace {

/// Detections from decoded boxes and class scores (YOLO-NAS, PP-YOLOE): score threshold, the most
/// confident `nms_top_k`, NMS by class, the most confident `max_predictions`.
/// Output: "boxes" [B, A, 4] xyxy pixels and "scores" [B, A, C].
class PPYoloEPostPredictionCallback final : public DetectionPostprocess {
 public:
  struct Params {
    double score_threshold = 0.0;     // keeps higher scores (one label per box: also equal ones)
    double nms_threshold = 0.0;       // IoU above which the less confident box goes
    int nms_top_k = 0;                // candidates that take part in NMS
    int max_predictions = 0;          // for an image
    bool multi_label_per_box = true;  // every class above the threshold, else the best one
    bool class_agnostic_nms = false;

    static Params from(core::Node& n) {
      Params p;
      p.score_threshold = n.get<double>("score_threshold").min(0.0);
      p.nms_threshold = n.get<double>("nms_threshold").in(0.0, 1.0);
      p.nms_top_k = n.get<int>("nms_top_k").in(1, 10'000'000);
      p.max_predictions = n.get<int>("max_predictions").in(1, 1'000'000);
      p.multi_label_per_box = n.get_or("multi_label_per_box", p.multi_label_per_box);
      p.class_agnostic_nms = n.get_or("class_agnostic_nms", p.class_agnostic_nms);
      return p;
    }
  };
  explicit PPYoloEPostPredictionCallback(const Params& params) : params_(params) {}

  std::vector<Detections> operator()(const tensor::ModelOutput& output) const override {
    const at::NoGradGuard no_grad;
    at::Tensor boxes = output["boxes"].detach().to(at::kFloat),
               scores = output["scores"].detach().to(at::kFloat);
    if (boxes.dim() != 3 || boxes.size(2) != 4 || scores.dim() != 3 ||
        scores.size(1) != boxes.size(1)) {
      throw core::Error(
          "PPYoloEPostPredictionCallback: boxes and scores of the model do not go together");
    }
    if (!boxes.is_cpu()) {
      // Everything at once: one wait instead of one for each image.
      boxes = boxes.cpu();
      scores = scores.cpu();
    }
    boxes = boxes.contiguous();
    scores = scores.contiguous();
    std::vector<Detections> out(static_cast<std::size_t>(boxes.size(0)));
    at::parallel_for(0, boxes.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      const at::NoGradGuard no_grad_here;  // the mode belongs to the thread
      for (std::int64_t b = begin; b < end; ++b) {
        out[static_cast<std::size_t>(b)] =
            detect(boxes.data_ptr<float>() + b * boxes.size(1) * 4,
                   scores.data_ptr<float>() + b * scores.size(1) * scores.size(2), scores.size(1),
                   scores.size(2));
      }
    });
    return out;
  }

  void set(const Thresholds& t) override {
    params_.score_threshold = t.confidence.value_or(params_.score_threshold);
    params_.nms_threshold = t.iou.value_or(params_.nms_threshold);
    params_.nms_top_k = t.pre_nms_top_k.value_or(params_.nms_top_k);
    params_.max_predictions = t.max_predictions.value_or(params_.max_predictions);
    params_.class_agnostic_nms = t.class_agnostic.value_or(params_.class_agnostic_nms);
    params_.multi_label_per_box = t.multi_label.value_or(params_.multi_label_per_box);
  }

 private:
  Detections detect(const float* boxes, const float* scores, std::int64_t anchors,
                    std::int64_t classes) const {
    std::vector<Candidate> candidates;
    const auto threshold = static_cast<float>(params_.score_threshold);
    const auto add = [&](std::int64_t anchor, std::int64_t label) {
      const float* box = boxes + anchor * 4;
      candidates.push_back({{box[0], box[1], box[2], box[3]},
                            scores[anchor * classes + label],
                            static_cast<std::int32_t>(label)});
    };
    for (std::int64_t anchor = 0; anchor < anchors; ++anchor) {
      const float* row = scores + anchor * classes;
      if (params_.multi_label_per_box) {
        for (std::int64_t label = 0; label < classes; ++label) {
          if (row[label] > threshold) add(anchor, label);
        }
      } else if (classes > 0) {
        const std::int64_t label = std::max_element(row, row + classes) - row;
        if (row[label] >= threshold) add(anchor, label);
      }
    }
    keep_most_confident(candidates, static_cast<std::size_t>(params_.nms_top_k));
    const auto kept = nms(candidates, params_.nms_threshold, params_.class_agnostic_nms,
                          static_cast<std::size_t>(params_.max_predictions));
    Detections out = at::empty({static_cast<std::int64_t>(kept.size()), 6}, at::kFloat);
    auto* row = out.data_ptr<float>();
    for (const std::size_t i : kept) {
      const Candidate& c = candidates[i];
      for (const float value :
           {c.box.x1, c.box.y1, c.box.x2, c.box.y2, c.score, static_cast<float>(c.label)}) {
        *row++ = value;
      }
    }
    return out;
  }

  Params params_;
};

}  // namespace
SGTRAIN_REGISTER(DetectionPostprocess, PPYoloEPostPredictionCallback,
                 "PPYoloEPostPredictionCallback");
}  // namespace sgtrain::postprocess
