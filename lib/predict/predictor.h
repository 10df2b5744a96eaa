// Images in, predictions in image pixels out: preprocessing, forward and postprocess of a loaded
// model, batch by batch.
#pragma once

#include <ATen/ATen.h>

#include <opencv2/core.hpp>
#include <span>
#include <utility>
#include <vector>

#include "image/draw.h"
#include "predict/load_model.h"

namespace sgtrain::predict {

/// What was found in one image.
struct Prediction {
  cv::Size size;                               // of the upright image
  std::vector<image::LabelledBox> boxes;       // detection: image pixels, most confident first
  std::vector<std::pair<int, float>> classes;  // classification: (class, probability), best five
};

struct PredictorOptions {
  at::Device device = at::kCPU;
  at::ScalarType precision = at::kFloat;
  bool fuse = true;  // RepVGG branches and batch norms folded into convolutions
};

class Predictor {
 public:
  Predictor(LoadedModel loaded, const PredictorOptions& options);

  /// Upright RGB images of any sizes; those whose network inputs agree in size share a batch.
  std::vector<Prediction> operator()(std::span<const cv::Mat> images);

  const LoadedModel& loaded() const { return loaded_; }

 private:
  void run_batch(const std::vector<data::NetworkInput>& inputs, std::span<const std::size_t> chosen,
                 std::vector<Prediction>& predictions);

  LoadedModel loaded_;
  PredictorOptions options_;
};

}  // namespace sgtrain::predict
