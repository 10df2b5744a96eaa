#include "train/detection_picture.h"

#include <algorithm>

#include "image/draw.h"

namespace sgtrain::train {
namespace {

std::vector<image::LabelledBox> boxes_of(const at::Tensor& rows, std::int64_t image) {
  std::vector<image::LabelledBox> out;
  const at::Tensor host = rows.to(at::kCPU, at::kFloat).contiguous();
  const auto values = host.accessor<float, 2>();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (static_cast<std::int64_t>(values[i][0]) != image) continue;
    const float cx = values[i][2], cy = values[i][3], w = values[i][4] / 2, h = values[i][5] / 2;
    out.push_back({cx - w, cy - h, cx + w, cy + h, static_cast<int>(values[i][1]), -1.0F});
  }
  return out;
}

std::vector<image::LabelledBox> boxes_of(const postprocess::Detections& detections) {
  std::vector<image::LabelledBox> out;
  const at::Tensor host = detections.to(at::kCPU, at::kFloat).contiguous();
  const auto values = host.accessor<float, 2>();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    out.push_back({values[i][0], values[i][1], values[i][2], values[i][3],
                   static_cast<int>(values[i][5]), values[i][4]});
  }
  return out;
}

}  // namespace

std::vector<cv::Mat> draw_detections(const at::Tensor& images, const tensor::Targets& targets,
                                     std::span<const postprocess::Detections> predictions,
                                     std::span<const std::string> class_names, int first,
                                     int last) {
  std::vector<cv::Mat> out;
  const at::Tensor bytes = images.cpu().contiguous();
  const auto count = static_cast<int>(bytes.size(0));
  const int end = last < 0 ? count : std::min(last + 1, count);
  for (int i = std::max(first, 0); i < end; ++i) {
    const at::Tensor image = bytes[i];
    const cv::Mat view(static_cast<int>(image.size(0)), static_cast<int>(image.size(1)), CV_8UC3,
                       image.data_ptr());
    cv::Mat truth = view.clone(), predicted = view.clone(), both;
    if (targets.boxes.defined()) image::draw_boxes(truth, boxes_of(targets.boxes, i), class_names);
    if (static_cast<std::size_t>(i) < predictions.size())
      image::draw_boxes(predicted, boxes_of(predictions[static_cast<std::size_t>(i)]), class_names);
    cv::hconcat(truth, predicted, both);
    out.push_back(both);
  }
  return out;
}

}  // namespace sgtrain::train
