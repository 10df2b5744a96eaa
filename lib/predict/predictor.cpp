#include "predict/predictor.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.h"
#include "loader/normalise.h"
#include "tensor/device.h"

namespace sgtrain::predict {
namespace {

constexpr std::int64_t kTopClasses = 5;

at::Tensor stack_images(const std::vector<data::NetworkInput>& inputs,
                        std::span<const std::size_t> chosen) {
  const cv::Mat& first = inputs[chosen.front()].image;
  at::Tensor batch =
      at::empty({static_cast<std::int64_t>(chosen.size()), first.rows, first.cols, 3}, at::kByte);
  auto* out = batch.data_ptr<std::uint8_t>();
  const std::size_t row_bytes = static_cast<std::size_t>(first.cols) * 3;
  for (const std::size_t i : chosen) {
    for (int y = 0; y < first.rows; ++y, out += row_bytes)
      std::memcpy(out, inputs[i].image.ptr(y), row_bytes);
  }
  return batch;
}

std::vector<image::LabelledBox> to_boxes(const at::Tensor& detections,
                                         const core::Geometry& geometry) {
  std::vector<image::LabelledBox> boxes;
  const at::Tensor rows = detections.to(at::kFloat).contiguous();
  const auto* row = rows.data_ptr<float>();
  for (std::int64_t i = 0; i < rows.size(0); ++i, row += 6) {
    const auto box = geometry.box_to_original({row[0], row[1], row[2], row[3]});
    boxes.push_back({.x1 = box[0],
                     .y1 = box[1],
                     .x2 = box[2],
                     .y2 = box[3],
                     .label = static_cast<int>(row[5]),
                     .score = row[4]});
  }
  return boxes;
}

std::vector<std::pair<int, float>> best_classes(const at::Tensor& logits) {
  const auto [values, indices] = at::softmax(logits.to(at::kFloat), 0)
                                     .topk(std::min<std::int64_t>(kTopClasses, logits.size(0)));
  std::vector<std::pair<int, float>> out;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    out.emplace_back(indices[i].item<int>(), values[i].item<float>());
  }
  return out;
}

}  // namespace

Predictor::Predictor(LoadedModel loaded, const PredictorOptions& options)
    : loaded_(std::move(loaded)), options_(options) {
  loaded_.model->eval();
  if (options_.fuse) loaded_.model->fuse(true);
  loaded_.model->to(options_.device);
  loaded_.model->to_channels_last();
}

std::vector<Prediction> Predictor::operator()(std::span<const cv::Mat> images) {
  std::vector<data::NetworkInput> inputs;
  std::map<std::pair<int, int>, std::vector<std::size_t>> by_size;
  for (const cv::Mat& image : images) {
    inputs.push_back(loaded_.preprocessing(image));
    const cv::Mat& ready = inputs.back().image;
    const int divisor = loaded_.model->size_divisor();
    if (ready.rows % divisor != 0 || ready.cols % divisor != 0) {
      throw core::InputError("the network needs sizes that are multiples of " +
                                 std::to_string(divisor) + ", this image has " +
                                 std::to_string(ready.cols) + "x" + std::to_string(ready.rows),
                             "predict", "choose another --imgsz");
    }
    by_size[{ready.rows, ready.cols}].push_back(inputs.size() - 1);
  }
  std::vector<Prediction> predictions(images.size());
  for (const auto& [size, chosen] : by_size) run_batch(inputs, chosen, predictions);
  return predictions;
}

void Predictor::run_batch(const std::vector<data::NetworkInput>& inputs,
                          std::span<const std::size_t> chosen,
                          std::vector<Prediction>& predictions) {
  const at::NoGradGuard no_grad;
  const at::Tensor images = loader::normalise(stack_images(inputs, chosen).to(options_.device),
                                              loaded_.preprocessing.normalisation());
  tensor::ModelOutput output;
  {
    const tensor::AutocastGuard autocast(options_.device, options_.precision);
    output = loaded_.model->run(images);
  }
  if (loaded_.postprocess) {
    const auto detections = (*loaded_.postprocess)(output);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      predictions[chosen[i]] = {.size = inputs[chosen[i]].original,
                                .boxes = to_boxes(detections[i], inputs[chosen[i]].geometry()),
                                .classes = {}};
    }
    return;
  }
  const at::Tensor logits = output["logits"].cpu();
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    predictions[chosen[i]] = {.size = inputs[chosen[i]].original,
                              .boxes = {},
                              .classes = best_classes(logits[static_cast<std::int64_t>(i)])};
  }
}

}  // namespace sgtrain::predict
