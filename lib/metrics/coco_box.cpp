#include <algorithm>

#include "core/error.h"
#include "metrics/coco/coco_eval.h"
#include "metrics/detection_input.h"

namespace sgtrain::metrics {
namespace {

/// COCO's AP and AR (coco/coco_eval.h) beside SuperGradients' own metrics, in pixels of the
/// pictures as pycocotools scores them: detections go back through the preprocessing, objects and
/// areas are those of the annotation file. Where the way back is not known (transforms that
/// prediction lacks), boxes and areas are those of the network input. -1: no object.
class CocoBox final : public Metric {
 public:
  struct Params {
    DetectionMetricParams shared;
    bool include_classwise_ap = false;

    static Params from(core::Node& n) {
      Params p;
      p.shared = DetectionMetricParams::from(n);
      p.include_classwise_ap = n.get_or("include_classwise_ap", p.include_classwise_ap);
      return p;
    }
  };

  explicit CocoBox(const Params& params) : params_(params), reader_(params.shared) {}

  bool wants_originals() const override { return true; }
  void reset() override { truth_ = {}, detections_.clear(); }

  void update(const MetricInput& input) override {
    for (const DetectionImage& image : reader_.read(input)) {
      const std::int64_t id = image.original != nullptr ? image.original->id : image.index;
      truth_.images.push_back(id);
      if (image.original != nullptr) {
        for (const OriginalObject& o : image.original->objects)
          truth_.objects.push_back({id, o.label, o.x, o.y, o.w, o.h, o.area, o.crowd});
      } else {
        for (const LabelledBox& object : image.objects) add_object(id, object, false);
        for (const LabelledBox& object : image.crowds) add_object(id, object, true);
      }
      const auto rows = image.detections.accessor<float, 2>();
      for (std::int64_t i = 0; i < rows.size(0); ++i) {
        std::array<float, 4> box{rows[i][0], rows[i][1], rows[i][2], rows[i][3]};
        if (image.original != nullptr) box = image.original->geometry.box_to_original(box);
        detections_.push_back({id, static_cast<std::int64_t>(rows[i][5]), box[0], box[1],
                               static_cast<double>(box[2]) - box[0],
                               static_cast<double>(box[3]) - box[1], rows[i][4]});
      }
    }
  }

  std::vector<MetricValue> describe() const override {
    return named(CocoResult{},
                 std::vector<double>(static_cast<std::size_t>(params_.shared.num_classes), -1.0));
  }

  std::vector<MetricValue> compute() override {
    std::vector<double> class_ap(static_cast<std::size_t>(params_.shared.num_classes), -1.0);
    CocoResult result;
    result.stats.fill(-1.0);
    if (!truth_.images.empty()) {
      truth_.categories.clear();
      for (int i = 0; i < params_.shared.num_classes; ++i) truth_.categories.push_back({i, ""});
      // Scores tie by image and place there, and no order of merging may count.
      const auto by_image = [](const auto& a, const auto& b) { return a.image < b.image; };
      std::stable_sort(truth_.objects.begin(), truth_.objects.end(), by_image);
      std::stable_sort(detections_.begin(), detections_.end(), by_image);
      result = evaluate_coco(truth_, detections_);
      for (std::size_t i = 0; i < class_ap.size(); ++i)
        class_ap[i] = result.average_precision(static_cast<int>(i));
    }
    return named(result, class_ap);
  }

  std::vector<at::Tensor> state() const override {
    const auto count = [](const auto& items) { return static_cast<std::int64_t>(items.size()); };
    at::Tensor images = at::tensor(truth_.images, at::kLong);
    at::Tensor objects = at::empty({count(truth_.objects), 8}, at::kDouble);
    auto* value = objects.data_ptr<double>();
    for (const CocoObject& o : truth_.objects) {
      for (const double v : {static_cast<double>(o.image), static_cast<double>(o.category), o.x,
                             o.y, o.w, o.h, o.area, o.crowd ? 1.0 : 0.0}) {
        *value++ = v;
      }
    }
    at::Tensor found = at::empty({count(detections_), 7}, at::kDouble);
    value = found.data_ptr<double>();
    for (const CocoDetection& d : detections_) {
      for (const double v : {static_cast<double>(d.image), static_cast<double>(d.category), d.x,
                             d.y, d.w, d.h, d.score}) {
        *value++ = v;
      }
    }
    return {images, objects, found};
  }

  void merge(const std::vector<at::Tensor>& other) override {
    const auto images = other.at(0).accessor<std::int64_t, 1>();
    const auto objects = other.at(1).accessor<double, 2>(),
               found = other.at(2).accessor<double, 2>();
    for (std::int64_t i = 0; i < images.size(0); ++i) truth_.images.push_back(images[i]);
    for (std::int64_t i = 0; i < objects.size(0); ++i) {
      const auto row = objects[i];
      truth_.objects.push_back({static_cast<std::int64_t>(row[0]),
                                static_cast<std::int64_t>(row[1]), row[2], row[3], row[4], row[5],
                                row[6], row[7] != 0});
    }
    for (std::int64_t i = 0; i < found.size(0); ++i) {
      const auto row = found[i];
      detections_.push_back({static_cast<std::int64_t>(row[0]), static_cast<std::int64_t>(row[1]),
                             row[2], row[3], row[4], row[5], row[6]});
    }
  }

 private:
  void add_object(std::int64_t image, const LabelledBox& object, bool crowd) {
    const tensor::Box& box = object.box;
    const double w = static_cast<double>(box.x2) - box.x1, h = static_cast<double>(box.y2) - box.y1;
    truth_.objects.push_back({image, object.label, box.x1, box.y1, w, h, w * h, crowd});
  }

  std::vector<MetricValue> named(const CocoResult& result,
                                 const std::vector<double>& class_ap) const {
    static constexpr std::array<const char*, 12> kNames = {
        "COCO_AP@0.50:0.95", "COCO_AP@0.50",  "COCO_AP@0.75",   "COCO_AP_small",
        "COCO_AP_medium",    "COCO_AP_large", "COCO_AR@1",      "COCO_AR@10",
        "COCO_AR@100",       "COCO_AR_small", "COCO_AR_medium", "COCO_AR_large"};
    std::vector<MetricValue> out;
    for (std::size_t i = 0; i < kNames.size(); ++i) out.push_back({kNames[i], result.stats[i]});
    if (params_.include_classwise_ap) {
      const std::vector<std::string> names = params_.shared.names();
      for (std::size_t i = 0; i < names.size(); ++i)
        out.push_back({"COCO_AP_" + names[i], class_ap[i]});
    }
    return out;
  }

  Params params_;
  DetectionReader reader_;
  CocoGroundTruth truth_;
  std::vector<CocoDetection> detections_;
};

}  // namespace
SGTRAIN_REGISTER(Metric, CocoBox, "CocoBox", "coco_box");
}  // namespace sgtrain::metrics
