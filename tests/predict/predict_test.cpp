// The inference path against whole predict() calls of the reference implementation.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "image/image.h"
#include "predict/load_model.h"
#include "predict/predictor.h"
#include "support/build_model.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/temp_dir.h"
#include "tensor/checkpoint.h"
#include "tensor/safetensors.h"
#include "tensor/value_tree.h"

using namespace sgtrain;
using core::Tree;
namespace fs = std::filesystem;

namespace {

struct Found {
  std::array<float, 4> box;
  float score;
  int label;
};

std::vector<Found> run(predict::Predictor& predictor, const cv::Mat& image) {
  std::vector<Found> out;
  const std::vector<cv::Mat> images{image};
  const auto predictions = predictor(images);
  for (const auto& box : predictions.front().boxes)
    out.push_back({{box.x1, box.y1, box.x2, box.y2}, box.score, box.label});
  return out;
}

/// Takes the nearest detection of equal class and score out of `found`; false when there is none.
bool take(std::vector<Found>& found, const Found& wanted, float pixels, float score) {
  const auto same = [&](const Found& f) {
    if (f.label != wanted.label || std::abs(f.score - wanted.score) > score) return false;
    for (std::size_t i = 0; i < 4; ++i)
      if (std::abs(f.box[i] - wanted.box[i]) > pixels) return false;
    return true;
  };
  const auto at = std::find_if(found.begin(), found.end(), same);
  if (at == found.end()) return false;
  found.erase(at);
  return true;
}

postprocess::Thresholds at_least(double confidence, std::optional<double> iou = {}) {
  postprocess::Thresholds out;
  out.confidence = confidence;
  out.iou = iou;
  return out;
}

core::TreePtr square(std::int64_t side) {
  return support::list_of({side, side});
}

/// yolo_nas_s filled by the rule, as the goldens used it, with its preprocessing.
fs::path rule_checkpoint(const support::TempDir& dir) {
  const auto model = support::build_model("yolo_nas_s", 80);
  support::fill_by_rule(*model, 0.74);
  auto steps = Tree::make_list();
  steps->list = {
      data::processing_entry("DetectionLongestMaxSizeRescale", {{"output_shape", square(156)}}),
      data::processing_entry(
          "DetectionCenterPadding",
          {{"output_shape", square(160)}, {"pad_value", Tree::of(std::int64_t{114})}}),
      data::processing_entry("StandardizeImage", {{"max_value", Tree::of(255.0)}})};
  tensor::Value params = tensor::Value::dict();
  params.set("image_processor", tensor::value_from_tree(*steps));
  params.set("iou", 0.5);
  params.set("conf", 0.8);
  tensor::Checkpoint checkpoint;
  checkpoint.net = model->state_dict();
  checkpoint.processing_params = params;
  const fs::path file = dir.path() / "rule.pth";
  checkpoint.write(file);
  return file;
}

}  // namespace

TEST_CASE("predict equals the reference's whole predict()", "[golden]") {
  const support::TempDir dir;
  const fs::path file = rule_checkpoint(dir);
  const auto golden =
      tensor::read_safetensors(support::golden("transforms/predict_yolo_nas_s.safetensors"));
  const cv::Mat image = image::decode_file(support::golden("transforms/image.png")).image;
  struct Case {
    std::string name;
    postprocess::Thresholds thresholds;
    bool skip_resizing = false;
  };
  postprocess::Thresholds agnostic = at_least(0.8, 0.5), single = at_least(0.7, 0.5),
                          most = at_least(0.8);
  agnostic.class_agnostic = true;
  single.multi_label = false;
  most.max_predictions = 5;
  const std::vector<Case> cases{
      {"default", {}, false},        {"conf085_iou03", at_least(0.85, 0.3), false},
      {"agnostic", agnostic, false}, {"multilabel_false", single, false},
      {"max5", most, false},         {"skip_resize", at_least(0.85, 0.3), true}};
  for (const Case& c : cases) {
    for (const bool fuse : {false, true}) {
      INFO(c.name << (fuse ? ", fused" : ", unfused"));
      predict::Predictor predictor(predict::load_model({.checkpoint = file,
                                                        .architecture = "yolo_nas_s",
                                                        .num_classes = {},
                                                        .image_size = {},
                                                        .skip_image_resizing = c.skip_resizing,
                                                        .thresholds = c.thresholds}),
                                   {.fuse = fuse});
      std::vector<Found> found = run(predictor, image);
      const at::Tensor boxes = golden[c.name + ".bboxes_xyxy"].contiguous(),
                       scores = golden[c.name + ".confidence"], labels = golden[c.name + ".labels"];
      CHECK(found.size() == static_cast<std::size_t>(boxes.size(0)));
      for (std::int64_t i = 0; i < boxes.size(0); ++i) {
        Found wanted{{}, scores[i].item<float>(), labels[i].item<int>()};
        for (std::size_t k = 0; k < 4; ++k)
          wanted.box[k] = boxes[i][static_cast<std::int64_t>(k)].item<float>();
        INFO("detection " << i << " of score " << wanted.score);
        CHECK(take(found, wanted, 1e-2F, 1e-4F));
      }
    }
  }
}

TEST_CASE("predictions of a trained network equal the reference's", "[data]") {
  const fs::path shared = SGTRAIN_SHARED_DIR, trained = shared / "golden/trained";
  const fs::path pictures = shared / "data/bccd/JPEGImages";
  if (!fs::exists(trained) || !fs::exists(pictures)) return;
  struct Case {
    const char* file;
    double confidence;
    bool fuse;
  };
  // The reference ran unfused; folding blocks moves sums by rounding only.
  for (const Case& c : {Case{"val_predictions_conf001.json", 0.01, false},
                        Case{"test20_predictions_conf025.json", 0.25, true}}) {
    INFO(c.file);
    std::ifstream stream(trained / c.file);
    std::map<std::string, std::vector<Found>> wanted;
    for (const auto& row : nlohmann::json::parse(stream)) {
      const auto b = row["bbox"].get<std::array<float, 4>>();
      wanted[row["image"]].push_back(
          {{b[0], b[1], b[0] + b[2], b[1] + b[3]}, row["score"], row["category_id"]});
    }
    predict::Predictor predictor(predict::load_model({.checkpoint = trained / "yolo_nas_s_bccd.pth",
                                                      .architecture = "yolo_nas_s",
                                                      .num_classes = {},
                                                      .image_size = {},
                                                      .thresholds = at_least(c.confidence)}),
                                 {.fuse = c.fuse});
    REQUIRE(predictor.loaded().class_names == std::vector<std::string>{"RBC", "WBC", "Platelets"});
    std::size_t all = 0, missing = 0, extra = 0;
    for (auto& [stem, boxes] : wanted) {
      std::vector<Found> found =
          run(predictor, image::decode_file(pictures / (stem + ".jpg")).image);
      for (const Found& one : boxes) {
        ++all;
        missing += take(found, one, 0.05F, 1e-4F) ? 0 : 1;
      }
      extra += found.size();
    }
    INFO(all << " detections, " << missing << " missing, " << extra << " extra");
    // An overlap or score within rounding of a cut decides otherwise now and then.
    CHECK(missing <= all / 1000);
    CHECK(extra <= all / 1000);
  }
}
