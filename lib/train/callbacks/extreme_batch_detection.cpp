#include <cmath>

#include "core/text.h"
#include "metrics/metric.h"
#include "train/callback.h"
#include "train/detection_picture.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Sends pictures of the batch of an epoch with the greatest (or smallest) loss or metric to the
/// logger: "train_extreme_batch/0" …, "val_extreme_batch/0" …
class ExtremeBatchDetectionVisualizationCallback final : public Callback {
 public:
  struct Params {
    postprocess::DetectionPostprocess::Registry::MakerType postprocess;
    metrics::Metric::Registry::MakerType metric;  // or
    std::string loss_to_monitor;                  // logged name of a component
    std::string metric_component_name;            // of a metric with several
    bool max = false;
    int freq = 1;                      // epochs
    std::vector<std::string> classes;  // empty: the run's
    bool on_train = false, on_valid = true;
    int max_images = -1;  // -1: all
    static Params from(core::Node& n) {
      Params p;
      p.postprocess = postprocess::DetectionPostprocess::registry().parse(
          n.component("post_prediction_callback"));
      if (auto metric = n.find_component("metric"))
        p.metric = metrics::Metric::registry().parse(*metric);
      p.loss_to_monitor = n.get_or("loss_to_monitor", "").value();
      p.metric_component_name = n.get_or("metric_component_name", "").value();
      if (!n.describing() && n.has("metric") == !p.loss_to_monitor.empty())
        n.problem("metric", "give either metric or loss_to_monitor");
      p.max = n.get_or("max", p.max);
      p.freq = n.get_or("freq", p.freq).min(1).help("epochs");
      p.classes = n.get_or("classes", std::vector<std::string>{}).value();
      n.get_or("normalize_targets", false).help("targets are pixels here whatever it says");
      p.on_train = n.get_or("enable_on_train_loader", p.on_train);
      p.on_valid = n.get_or("enable_on_valid_loader", p.on_valid);
      p.max_images = n.get_or("max_images", p.max_images).min(-1);
      return p;
    }
  };
  explicit ExtremeBatchDetectionVisualizationCallback(Params params)
      : p_(std::move(params)),
        postprocess_(p_.postprocess()),
        metric_(p_.metric ? p_.metric() : nullptr) {}

  Requests on_train_batch_loss_end(PhaseContext& c) override {
    return p_.on_train ? look(c) : Requests{};
  }
  Requests on_train_loader_end(PhaseContext& c) override {
    return p_.on_train ? show(c, "train_extreme_batch/") : Requests{};
  }
  Requests on_validation_batch_end(PhaseContext& c) override {
    return p_.on_valid ? look(c) : Requests{};
  }
  Requests on_validation_loader_end(PhaseContext& c) override {
    return p_.on_valid ? show(c, "val_extreme_batch/") : Requests{};
  }

 private:
  Requests look(PhaseContext& c) {
    if (!c.is_main || c.run == nullptr || c.batch == nullptr || c.output == nullptr) return {};
    if (c.state.epoch % p_.freq != 0) return {};
    const at::NoGradGuard no_grad;
    const auto score = metric_ ? metric_of(c) : loss_of(c);
    if (!score)
      return {.stop_training = "ExtremeBatchDetectionVisualizationCallback: '" +
                               (metric_ ? p_.metric_component_name : p_.loss_to_monitor) +
                               "' is no value of this run"};
    if (!std::isfinite(*score) ||
        (extreme_ && (p_.max ? *score <= *extreme_ : *score >= *extreme_)))
      return {};
    extreme_ = score;
    images_ = c.batch->images.cpu().clone();  // the batch's memory is used again
    targets_ = c.batch->targets;
    if (targets_.boxes.defined()) targets_.boxes = targets_.boxes.clone();
    predictions_ = (*postprocess_)(*c.output);
    return {};
  }

  Requests show(PhaseContext& c, const std::string& tag) {
    if (!extreme_) return {};
    const auto& names = p_.classes.empty() ? c.run->class_names : p_.classes;
    const auto pictures = draw_detections(images_, targets_, predictions_, names, 0,
                                          p_.max_images < 0 ? -1 : p_.max_images - 1);
    for (std::size_t i = 0; i < pictures.size(); ++i)
      c.run->logger->add_image(tag + std::to_string(i), pictures[i], c.state.epoch);
    extreme_.reset();
    images_.reset();
    predictions_.clear();
    return {};
  }

  std::optional<double> metric_of(PhaseContext& c) {
    metric_->reset();
    metric_->update({.output = *c.output,
                     .targets = *c.targets,
                     .height = c.batch->images.size(1),
                     .width = c.batch->images.size(2),
                     .indices = c.batch->indices});
    for (const auto& value : metric_->compute()) {
      if (p_.metric_component_name.empty() ||
          core::fuzzy_key(value.name) == core::fuzzy_key(p_.metric_component_name))
        return value.value;
    }
    return std::nullopt;
  }

  std::optional<double> loss_of(const PhaseContext& c) const {
    const auto names = c.loss.component_names();
    for (std::size_t i = 0; c.losses != nullptr && i < names.size() && i < c.losses->size(); ++i) {
      const std::string part = names[i].substr(names[i].rfind('/') + 1);
      if (core::fuzzy_key(names[i]) == core::fuzzy_key(p_.loss_to_monitor) ||
          core::fuzzy_key(part) == core::fuzzy_key(p_.loss_to_monitor))
        return (*c.losses)[i];
    }
    return std::nullopt;
  }

  Params p_;
  std::unique_ptr<postprocess::DetectionPostprocess> postprocess_;
  std::unique_ptr<metrics::Metric> metric_;
  std::optional<double> extreme_;
  at::Tensor images_;
  tensor::Targets targets_;
  std::vector<postprocess::Detections> predictions_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, ExtremeBatchDetectionVisualizationCallback,
                 "ExtremeBatchDetectionVisualizationCallback");
}  // namespace sgtrain::train
