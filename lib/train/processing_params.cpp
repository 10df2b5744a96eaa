#include "train/processing_params.h"

#include "core/error.h"
#include "core/log.h"
#include "tensor/value_tree.h"

namespace sgtrain::train {
namespace {

// SuperGradients' thresholds of pretrained YOLO-NAS models.
constexpr double kDefaultIou = 0.7;
constexpr double kDefaultConfidence = 0.25;

/// The steps without the parameters that SuperGradients' classes do not have.
core::TreePtr as_supergradients(const core::Tree& steps) {
  const core::TreePtr out = steps.clone();
  for (const core::TreePtr& step : out->list) step->map.front().second->erase("cut_sides");
  return out;
}

}  // namespace

void describe_processing(const RunPlan& plan, Run& run) {
  if (!plan.valid || !run.valid_set) return;
  const auto steps = core::Tree::make_list();
  try {
    steps->list = run.valid_pipeline->processing(plan.valid->input_dim);
  } catch (const core::Error& error) {
    core::log::warning(
        "checkpoints of this run will not say how images are prepared for predict: {}",
        error.what());
    return;
  }
  run.image_processor = tensor::value_from_tree(*steps);

  tensor::Value compose = tensor::Value::dict(), processor = tensor::Value::dict(),
                params = tensor::Value::dict(), names = tensor::Value::list();
  for (const std::string& name : run.class_names) names.append(tensor::Value(name));
  compose.set("processings", tensor::value_from_tree(*as_supergradients(*steps)));
  processor.set("ComposeProcessing", compose);
  params.set("class_names", names);
  params.set("image_processor", processor);
  if (run.valid_set->task() == data::Task::kDetection) {
    params.set("iou", kDefaultIou);
    params.set("conf", kDefaultConfidence);
  }
  run.processing_params = params;
}

}  // namespace sgtrain::train
