// What `predict` writes: pictures with boxes or captions, a JSON file, COCO results, a grid.
#pragma once

#include <filesystem>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "predict/predictor.h"

namespace sgtrain::predict {

/// One image's result and where it came from.
struct Result {
  std::filesystem::path file;
  std::int64_t image_id = 0;  // COCO results: from the annotation file given, else the position
  Prediction prediction;
};

/// Draws a prediction into a copy of the picture.
cv::Mat draw(const cv::Mat& rgb, const Prediction& prediction,
             const std::vector<std::string>& class_names, const image::DrawOptions& options);
/// "cat 0.93": the best class, or the number of boxes.
std::string caption(const Prediction& prediction, const std::vector<std::string>& class_names);

/// [{"image": …, "width": …, "predictions": [{"class_id", "class", "confidence", "bbox_xyxy"}]}].
void write_json(const std::filesystem::path& file, const std::vector<Result>& results,
                const std::vector<std::string>& class_names);
/// COCO results: [{"image_id", "category_id", "bbox" (xywh), "score", "image" (file's stem)}].
/// `category_ids` maps class index to category id; empty: the index itself.
void write_coco(const std::filesystem::path& file, const std::vector<Result>& results,
                const std::vector<std::int64_t>& category_ids);

}  // namespace sgtrain::predict
