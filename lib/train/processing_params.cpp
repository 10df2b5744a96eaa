#include "train/processing_params.h"

#include "core/error.h"
#include "core/log.h"
#include "tensor/value_tree.h"

namespace sgtrain::train {
namespace {

// SuperGradients' thresholds of pretrained YOLO-NAS models.
constexpr double kDefaultIou = 0.7;
constexpr double kDefaultConfidence = 0.25;

}  // namespace

tensor::Value processing_params(const RunPlan& plan, const Run& run) {
  if (!plan.valid || !run.valid_set) return {};
  tensor::Value names = tensor::Value::list();
  for (const std::string& name : run.class_names) names.append(tensor::Value(name));
  try {
    auto steps = core::Tree::make_list();
    steps->list = run.valid_pipeline->processing(plan.valid->input_dim);
    tensor::Value compose = tensor::Value::dict();
    compose.set("processings", tensor::value_from_tree(*steps));
    tensor::Value processor = tensor::Value::dict();
    processor.set("ComposeProcessing", compose);
    tensor::Value params = tensor::Value::dict();
    params.set("class_names", names);
    params.set("image_processor", processor);
    if (run.valid_set->task() == data::Task::kDetection) {
      params.set("iou", kDefaultIou);
      params.set("conf", kDefaultConfidence);
    }
    return params;
  } catch (const core::Error& error) {
    core::log::warning(
        "checkpoints of this run will not say how images are prepared for predict: {}",
        error.what());
    return {};
  }
}

}  // namespace sgtrain::train
