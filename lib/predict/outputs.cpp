#include "predict/outputs.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"

namespace sgtrain::predict {
namespace {

using nlohmann::ordered_json;

const std::string& name_of(int label, const std::vector<std::string>& names) {
  return names.at(static_cast<std::size_t>(label));
}

ordered_json to_json(const Result& result, const std::vector<std::string>& names) {
  ordered_json json;
  json["image"] = result.file.string();
  json["width"] = result.prediction.size.width;
  json["height"] = result.prediction.size.height;
  ordered_json predictions = ordered_json::array();
  for (const auto& box : result.prediction.boxes) {
    predictions.push_back({{"class_id", box.label},
                           {"class", name_of(box.label, names)},
                           {"confidence", box.score},
                           {"bbox_xyxy", {box.x1, box.y1, box.x2, box.y2}}});
  }
  for (const auto& [label, probability] : result.prediction.classes) {
    predictions.push_back(
        {{"class_id", label}, {"class", name_of(label, names)}, {"confidence", probability}});
  }
  json["predictions"] = std::move(predictions);
  return json;
}

/// File names are bytes; what is no UTF-8 in them is replaced in JSON, never fatal.
std::string dump(const ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string caption(const Prediction& prediction, const std::vector<std::string>& class_names) {
  if (!prediction.classes.empty()) {
    const auto& [label, probability] = prediction.classes.front();
    return fmt::format("{} {:.2f}", name_of(label, class_names), probability);
  }
  return fmt::format("{} object{}", prediction.boxes.size(),
                     prediction.boxes.size() == 1 ? "" : "s");
}

cv::Mat draw(const cv::Mat& rgb, const Prediction& prediction,
             const std::vector<std::string>& class_names, const image::DrawOptions& options) {
  cv::Mat drawn = rgb.clone();
  if (prediction.classes.empty()) {
    image::draw_boxes(drawn, prediction.boxes, class_names, options);
  } else {
    const auto colors = image::class_colors(static_cast<int>(class_names.size()));
    image::draw_caption(drawn, caption(prediction, class_names),
                        colors.at(static_cast<std::size_t>(prediction.classes.front().first)));
  }
  return drawn;
}

void write_json(const std::filesystem::path& file, const std::vector<Result>& results,
                const std::vector<std::string>& class_names) {
  ordered_json json = ordered_json::array();
  for (const Result& result : results) json.push_back(to_json(result, class_names));
  core::write_file_atomically(file, dump(json, 1));
}

void write_coco(const std::filesystem::path& file, const std::vector<Result>& results,
                const std::vector<std::int64_t>& category_ids) {
  ordered_json json = ordered_json::array();
  for (const Result& result : results) {
    for (const auto& box : result.prediction.boxes) {
      const auto label = static_cast<std::size_t>(box.label);
      // In double precision, as the metrics subtract.
      const double w = static_cast<double>(box.x2) - box.x1,
                   h = static_cast<double>(box.y2) - box.y1;
      json.push_back({{"image", result.file.stem().string()},
                      {"image_id", result.image_id},
                      {"category_id", category_ids.empty() ? box.label : category_ids.at(label)},
                      {"bbox", {box.x1, box.y1, w, h}},
                      {"score", box.score}});
    }
  }
  core::write_file_atomically(file, dump(json, -1));
}

}  // namespace sgtrain::predict
