#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "metrics/detection_input.h"
#include "metrics/detection_matching.h"

namespace sgtrain::metrics {
namespace {

/// SuperGradients' detection metrics: precision, recall and F1 at a score threshold, mAP over IoU
/// thresholds and 101 recalls, the score threshold of the best F1. Values are means over the
/// classes that have objects; -1 when there are none. Not quite COCO's AP (that is CocoBox): the
/// fourth digit differs.
class DetectionMetrics final : public Metric {
 public:
  struct Params {
    DetectionMetricParams shared;
    double iou_low = 0.5, iou_high = 0.95;  // in steps of 0.05
    std::vector<double> recall_thres;       // empty: 0:0.01:1
    double score_thres = 0.1;               // for precision, recall and F1
    std::int64_t top_k_predictions = 100;   // of each image and class
    bool calc_best_score_thresholds = true;
    bool include_classwise_ap = false;

    static Params from(core::Node& n) {
      Params p = without_iou(n);
      if (!n.has("iou_thres")) return p;
      core::Node iou = n.child("iou_thres");
      if (iou.is_number()) {
        p.iou_low = p.iou_high = iou.as<double>();
      } else {
        const auto bounds = iou.as<std::vector<double>>();
        if (bounds.size() == 2) {
          p.iou_low = bounds[0];
          p.iou_high = bounds[1];
        } else {
          iou.problem("expected one IoU threshold or a list [lowest, highest]");
        }
      }
      if (!(0 < p.iou_low && p.iou_low <= p.iou_high && p.iou_high < 1)) {
        iou.problem("IoU thresholds lie between 0 and 1, the lowest first");
      }
      return p;
    }
    static Params without_iou(core::Node& n) {
      Params p;
      p.shared = DetectionMetricParams::from(n);
      p.recall_thres = n.get_or("recall_thres", p.recall_thres).in(0.0, 1.0);
      p.score_thres = n.get_or("score_thres", p.score_thres).in(0.0, 1.0);
      p.top_k_predictions = n.get_or<std::int64_t>("top_k_predictions", p.top_k_predictions).min(1);
      p.calc_best_score_thresholds =
          n.get_or("calc_best_score_thresholds", p.calc_best_score_thresholds);
      p.include_classwise_ap = n.get_or("include_classwise_ap", p.include_classwise_ap);
      return p;
    }
  };

  explicit DetectionMetrics(const Params& params) : params_(params), reader_(params.shared) {
    const auto steps =
        static_cast<std::int64_t>(std::lround((params.iou_high - params.iou_low) / 0.05)) + 1;
    iou_thresholds_ = line(params.iou_low, params.iou_high, steps);
    curves_.iou_thresholds = iou_thresholds_.size();
    curves_.recall_thresholds.assign(params.recall_thres.begin(), params.recall_thres.end());
    if (params.recall_thres.empty()) curves_.recall_thresholds = line(0, 1, 101);
    curves_.score_thresholds =
        line(0, 1, static_cast<std::int64_t>(curves_.recall_thresholds.size()));
    curves_.score_threshold = static_cast<float>(params.score_thres);
    reset();
  }

  void reset() override {
    detections_.clear();
    objects_.assign(static_cast<std::size_t>(params_.shared.num_classes), 0);
    images_ = 0;
  }

  void update(const MetricInput& input) override {
    for (const DetectionImage& image : reader_.read(input)) {
      match_detections(image, input.height, input.width, iou_thresholds_, params_.top_k_predictions,
                       detections_);
      for (const LabelledBox& object : image.objects)
        ++objects_[static_cast<std::size_t>(object.label)];
      ++images_;
    }
  }

  std::vector<MetricValue> describe() const override {
    return named(Values(params_.shared.num_classes));
  }

  std::vector<MetricValue> compute() override {
    Values values(params_.shared.num_classes);
    // By class, then by falling score; ties by image and place, so that no order of merging counts.
    std::stable_sort(detections_.begin(), detections_.end(),
                     [](const MatchedDetection& a, const MatchedDetection& b) {
                       if (a.label != b.label) return a.label < b.label;
                       if (a.score != b.score) return a.score > b.score;
                       return a.image < b.image;
                     });
    const std::size_t thresholds = iou_thresholds_.size();
    std::vector<double> f1_at_score(curves_.score_thresholds.size(), 0);
    double precision = 0, recall = 0, f1 = 0, map = 0;
    int present = 0;
    for (int label = 0; label < params_.shared.num_classes; ++label) {
      const std::int64_t objects = objects_[static_cast<std::size_t>(label)];
      if (objects == 0) continue;
      ++present;
      const ClassValues own = class_values(of_class(label), objects, curves_);
      double ap = 0;
      for (std::size_t t = 0; t < thresholds; ++t) {
        const double p = own.precision[t], r = own.recall[t];
        precision += p;
        recall += r;
        f1 += 2 * p * r / (p + r + 1e-16);
        ap += own.average_precision[t] / static_cast<double>(thresholds);
      }
      map += ap;
      values.class_ap[static_cast<std::size_t>(label)] = ap;
      values.class_threshold[static_cast<std::size_t>(label)] = best_threshold(own.f1_at_score);
      for (std::size_t s = 0; s < f1_at_score.size(); ++s) f1_at_score[s] += own.f1_at_score[s];
    }
    if (present == 0) return named(values);
    const double cells = static_cast<double>(present) * static_cast<double>(thresholds);
    values.precision = precision / cells;
    values.recall = recall / cells;
    values.f1 = f1 / cells;
    values.map = map / present;
    values.threshold = best_threshold(f1_at_score);
    return named(values);
  }

  std::vector<at::Tensor> state() const override {
    const auto count = static_cast<std::int64_t>(detections_.size());
    at::Tensor integers = at::empty({count, 4}, at::kLong), scores = at::empty({count}, at::kFloat);
    auto* integer = integers.data_ptr<std::int64_t>();
    auto* score = scores.data_ptr<float>();
    for (const MatchedDetection& d : detections_) {
      for (const std::int64_t value : {d.image, std::int64_t{d.label}, d.matched, d.ignored})
        *integer++ = value;
      *score++ = d.score;
    }
    at::Tensor counts = at::tensor(objects_, at::kLong);
    return {integers, scores, at::cat({counts, at::tensor({images_}, at::kLong)})};
  }

  void merge(const std::vector<at::Tensor>& other) override {
    const auto integers = other.at(0).accessor<std::int64_t, 2>();
    const auto scores = other.at(1).accessor<float, 1>();
    const auto counts = other.at(2).accessor<std::int64_t, 1>();
    detections_.reserve(detections_.size() + static_cast<std::size_t>(scores.size(0)));
    for (std::int64_t i = 0; i < scores.size(0); ++i) {
      detections_.push_back({integers[i][0], static_cast<std::int32_t>(integers[i][1]), scores[i],
                             integers[i][2], integers[i][3]});
    }
    for (std::size_t label = 0; label < objects_.size(); ++label)
      objects_[label] += counts[static_cast<std::int64_t>(label)];
    images_ += counts[static_cast<std::int64_t>(objects_.size())];
  }

 private:
  struct Values {
    explicit Values(int classes)
        : class_ap(static_cast<std::size_t>(classes), 0.0),
          class_threshold(static_cast<std::size_t>(classes), 0.0) {}
    double precision = -1, recall = -1, map = -1, f1 = -1, threshold = -1;
    std::vector<double> class_ap, class_threshold;
  };

  static std::vector<float> line(double low, double high, std::int64_t steps) {
    const at::Tensor t = at::linspace(low, high, steps, at::kFloat);
    return {t.data_ptr<float>(), t.data_ptr<float>() + steps};
  }

  std::span<const MatchedDetection> of_class(std::int32_t label) const {
    const auto [first, last] = std::equal_range(
        detections_.begin(), detections_.end(), MatchedDetection{0, label, 0, 0, 0},
        [](const MatchedDetection& a, const MatchedDetection& b) { return a.label < b.label; });
    return {first, last};
  }

  double best_threshold(const std::vector<double>& f1_at_score) const {
    const auto best =
        std::max_element(f1_at_score.begin(), f1_at_score.end()) - f1_at_score.begin();
    return curves_.score_thresholds[static_cast<std::size_t>(best)];
  }

  std::vector<MetricValue> named(const Values& v) const {
    const std::string range =
        iou_thresholds_.size() == 1
            ? fmt::format("@{:.2f}", iou_thresholds_[0])
            : fmt::format("@{:.2f}:{:.2f}", iou_thresholds_.front(), iou_thresholds_.back());
    std::vector<MetricValue> out = {{"Precision" + range, v.precision},
                                    {"Recall" + range, v.recall},
                                    {"mAP" + range, v.map},
                                    {"F1" + range, v.f1}};
    const std::vector<std::string> names = params_.shared.names();
    if (params_.include_classwise_ap) {
      for (std::size_t i = 0; i < names.size(); ++i)
        out.push_back({"AP" + range + "_" + names[i], v.class_ap[i]});
    }
    if (params_.calc_best_score_thresholds) {
      out.push_back({"Best_score_threshold", v.threshold});
      for (std::size_t i = 0; i < names.size() && params_.include_classwise_ap; ++i) {
        out.push_back({"Best_score_threshold_" + names[i], v.class_threshold[i]});
      }
    }
    return out;
  }

  Params params_;
  DetectionReader reader_;
  std::vector<float> iou_thresholds_;
  CurveParams curves_;
  std::vector<MatchedDetection> detections_;
  std::vector<std::int64_t> objects_;  // of each class
  std::int64_t images_ = 0;
};

Metric::Registry::MakerType preset(core::Node& n, double low, double high) {
  auto params = DetectionMetrics::Params::without_iou(n);
  params.iou_low = low;
  params.iou_high = high;
  return [params] { return std::make_unique<DetectionMetrics>(params); };
}
Metric::Registry::MakerType parse_050(core::Node& n) {
  return preset(n, 0.5, 0.5);
}
Metric::Registry::MakerType parse_075(core::Node& n) {
  return preset(n, 0.75, 0.75);
}
Metric::Registry::MakerType parse_050_095(core::Node& n) {
  return preset(n, 0.5, 0.95);
}

}  // namespace
SGTRAIN_REGISTER_PARSER(Metric, parse_050, "DetectionMetrics_050");
SGTRAIN_REGISTER_PARSER(Metric, parse_075, "DetectionMetrics_075");
SGTRAIN_REGISTER_PARSER(Metric, parse_050_095, "DetectionMetrics_050_095");
SGTRAIN_REGISTER(Metric, DetectionMetrics, "DetectionMetrics");
}  // namespace sgtrain::metrics
