#include "metrics/detection_input.h"

#include "core/error.h"
#include "core/yaml_writer.h"

namespace sgtrain::metrics {
namespace {

/// Appends the rows (image, class, cx, cy, w, h) to their images.
void add_boxes(const at::Tensor& targets, const MetricInput& input, bool normalize_targets,
               int num_classes, std::vector<DetectionImage>& images,
               std::vector<LabelledBox> DetectionImage::*member) {
  if (!targets.defined() || targets.numel() == 0) return;
  const at::Tensor rows = targets.detach().to(at::kCPU, at::kFloat).contiguous();
  // No box of pixels is that small in a whole batch, no fraction that large.
  constexpr float kLargestFraction = 2.0F;
  const bool fractions =
      !normalize_targets && rows.narrow(1, 2, 4).abs().max().item<float>() <= kLargestFraction;
  const float sx = fractions ? static_cast<float>(input.width) : 1.0F;
  const float sy = fractions ? static_cast<float>(input.height) : 1.0F;
  const auto row = rows.accessor<float, 2>();
  for (std::int64_t i = 0; i < row.size(0); ++i) {
    const auto image = static_cast<std::int64_t>(row[i][0]);
    const auto label = static_cast<std::int32_t>(row[i][1]);
    if (image < 0 || image >= static_cast<std::int64_t>(images.size())) {
      throw core::Error("a target belongs to image " + std::to_string(image) + " of a batch of " +
                        std::to_string(images.size()));
    }
    if (label < 0 || label >= num_classes) {
      throw core::Error("a target has class " + std::to_string(label) +
                            ", but the metric has num_cls=" + std::to_string(num_classes),
                        {}, "set num_cls of the metric to the number of classes of the data set");
    }
    const float x1 = row[i][2] - 0.5F * row[i][4], y1 = row[i][3] - 0.5F * row[i][5];
    const tensor::Box box{x1 * sx, y1 * sy, (x1 + row[i][4]) * sx, (y1 + row[i][5]) * sy};
    (images[static_cast<std::size_t>(image)].*member).push_back({box, label});
  }
}

}  // namespace

DetectionMetricParams DetectionMetricParams::from(core::Node& n) {
  DetectionMetricParams p;
  p.num_classes = n.get<int>("num_cls|num_classes").in(1, 1 << 20);
  const core::Component callback = n.component("post_prediction_callback");
  p.callback_key = callback.name + core::write_yaml_inline(*callback.params.tree());
  p.post_prediction_callback = postprocess::DetectionPostprocess::registry().parse(callback);
  p.normalize_targets = n.get_or("normalize_targets", p.normalize_targets);
  p.class_names = n.get_or("class_names", p.class_names);
  if (!p.class_names.empty() && p.num_classes > 0 &&
      p.class_names.size() != static_cast<std::size_t>(p.num_classes)) {
    n.problem("class_names", std::to_string(p.class_names.size()) + " names, but num_cls is " +
                                 std::to_string(p.num_classes));
  }
  for (const char* key : {"dist_sync_on_step", "accumulate_on_cpu"}) {
    if (n.has(key)) n.child(key);  // accepted: metrics are always merged at the end, on the CPU
  }
  return p;
}

std::vector<std::string> DetectionMetricParams::names() const {
  std::vector<std::string> out = class_names;
  for (int i = static_cast<int>(out.size()); i < num_classes; ++i)
    out.push_back("class_" + std::to_string(i));
  return out;
}

std::vector<at::Tensor> DetectionReader::detect(const MetricInput& input) const {
  if (input.shared == nullptr) return (*callback_)(input.output);
  const auto [at, fresh] = input.shared->try_emplace(callback_key_);
  if (fresh) at->second = (*callback_)(input.output);
  return at->second;
}

std::vector<DetectionImage> DetectionReader::read(const MetricInput& input) const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> detections = detect(input);
  if (detections.size() != input.indices.size()) {
    throw core::Error("the model predicted " + std::to_string(detections.size()) +
                      " images, the batch has " + std::to_string(input.indices.size()));
  }
  std::vector<DetectionImage> images(detections.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    images[i].index = input.indices[i];
    images[i].detections = detections[i].to(at::kCPU, at::kFloat).contiguous();
    if (!input.originals.empty()) images[i].original = &input.originals[i];
  }
  add_boxes(input.targets.boxes, input, normalize_targets_, num_classes_, images,
            &DetectionImage::objects);
  add_boxes(input.targets.crowd_boxes, input, normalize_targets_, num_classes_, images,
            &DetectionImage::crowds);
  return images;
}

}  // namespace sgtrain::metrics
