#include "train/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/log.h"
#include "core/signals.h"
#include "data/boxes.h"
#include "data/processing.h"
#include "dist/sync.h"
#include "tensor/device.h"
#include "train/gather.h"

namespace sgtrain::train {
namespace {

/// Sums and normalisers of all images seen: a ratio of totals does not depend on batches or ranks.
class LossTotals {
 public:
  void add(const losses::LossResult& loss) {
    if (!sums_.defined()) {
      sums_ = at::zeros({static_cast<std::int64_t>(loss.terms.size()), 3}, at::kDouble);
    }
    for (std::size_t i = 0; i < loss.terms.size(); ++i) {
      const auto& term = loss.terms[i];
      const auto row = sums_[static_cast<std::int64_t>(i)];
      const at::Tensor sum = term.sum.detach().to(at::kDouble).cpu();
      row[0] += sum * term.weight;
      row[1] += sum * term.logged_weight.value_or(term.weight);
      row[2] += term.normaliser.detach().to(at::kDouble).cpu();
      floors_.resize(loss.terms.size());
      floors_[i] = term.floor;
    }
  }

  std::vector<double> components(const losses::Loss& loss, dist::Communicator& comm) {
    const std::size_t names = loss.component_names().size();
    const auto terms = static_cast<std::int64_t>(names > 1 ? names - 1 : 1);
    if (!sums_.defined()) sums_ = at::zeros({terms, 3}, at::kDouble);  // a rank without images
    comm.all_reduce(sums_);
    floors_.resize(static_cast<std::size_t>(terms), 0.0);
    std::vector<double> values;
    double total = 0.0;
    for (std::int64_t i = 0; i < terms; ++i) {
      const double normaliser =
          std::max(sums_[i][2].item<double>(), floors_[static_cast<std::size_t>(i)]);
      values.push_back(sums_[i][1].item<double>() / normaliser);
      total += sums_[i][0].item<double>() / normaliser;
    }
    if (terms > 1) values.push_back(total);
    return values;
  }

 private:
  at::Tensor sums_;  // [terms, 3]: in the total, as logged, normaliser
  std::vector<double> floors_;
};

/// The pictures of batches before preprocessing, for metrics that score in their pixels.
class Originals {
 public:
  Originals(const std::vector<std::unique_ptr<metrics::Metric>>& metrics,
            const loader::Loader& loader)
      : dataset_(loader.dataset()) {
    const bool wanted = std::any_of(metrics.begin(), metrics.end(),
                                    [](const auto& metric) { return metric->wants_originals(); });
    if (!wanted) return;
    try {
      const cv::Size fitted = dataset_.input_dim();
      preprocessing_ = data::Preprocessing::from(
          loader.pipeline().processing(fitted.empty() ? std::nullopt : std::optional(fitted)));
    } catch (const core::Error& error) {
      core::log::warning_once("scores of this data set are in pixels of the network input: {}",
                              error.what());
    }
  }

  std::vector<metrics::OriginalImage> of(const tensor::Batch& batch) const {
    std::vector<metrics::OriginalImage> out;
    for (std::size_t i = 0; preprocessing_ && i < batch.indices.size(); ++i) {
      const auto [height, width] = batch.original_size[i];
      const data::Annotation annotation = dataset_.annotation(batch.indices[i]);
      out.push_back({.id = annotation.image_id,
                     .geometry = preprocessing_->geometry({width, height}),
                     .objects = objects(annotation, {width, height})});
    }
    return out;
  }

 private:
  static std::vector<metrics::OriginalObject> objects(const data::Annotation& annotation,
                                                      cv::Size picture) {
    std::vector<data::Box> boxes(annotation.boxes.begin(), annotation.boxes.end());
    if (annotation.normalised) {
      data::scale_boxes(boxes, static_cast<float>(picture.width),
                        static_cast<float>(picture.height));
    }
    std::vector<metrics::OriginalObject> out;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const data::Box& box = boxes[i];
      data::ExactBox exact{.x = box.x1,
                           .y = box.y1,
                           .w = static_cast<double>(box.x2) - box.x1,
                           .h = static_cast<double>(box.y2) - box.y1};
      exact.area = exact.w * exact.h;
      if (!annotation.exact.empty()) exact = annotation.exact[i];
      out.push_back({exact.x, exact.y, exact.w, exact.h, exact.area, box.label, box.crowd});
    }
    return out;
  }

  const data::Dataset& dataset_;
  std::optional<data::Preprocessing> preprocessing_;
};

/// Normalised terms of one batch as logged, then their total where there are several.
std::vector<double> values_of(const losses::LossResult& loss) {
  const at::Tensor components = loss.components().to(at::kDouble).cpu().contiguous();
  const auto* data = components.data_ptr<double>();
  const auto count = loss.terms.size() > 1 ? components.numel() : 1;
  return {data, data + count};
}

}  // namespace

void merge_over_ranks(metrics::Metric& metric, dist::Communicator& comm) {
  if (comm.world_size() == 1) return;
  const auto states = gather(metric.state(), comm);
  metric.reset();
  for (const auto& state : states) metric.merge(state);
}

NamedValues Evaluator::run(models::Model& model, loader::Loader& loader,
                           const EvaluationHooks& hooks) {
  const at::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  for (auto& metric : metrics_) metric->reset();

  core::Progress progress(options_.title);
  LossTotals totals;
  const Originals originals(metrics_, loader);
  loader.begin(0);
  const std::int64_t batches = options_.max_batches
                                   ? std::min<std::int64_t>(*options_.max_batches, loader.batches())
                                   : loader.batches();
  for (std::int64_t i = 0; i < batches; ++i) {
    auto batch = loader.next();
    if (!batch) break;
    EvaluatedBatch seen{.index = static_cast<int>(i), .batch = *batch};
    if (hooks.batch_start) hooks.batch_start(seen);
    const tensor::Targets targets = batch->targets.to(options_.input.device);
    const at::Tensor images = to_network_input(batch->images, options_.input);
    tensor::ModelOutput output;
    {
      const tensor::AutocastGuard autocast(options_.input.device, options_.precision);
      output = model.run(images);
    }
    output = to_float(output);
    std::vector<double> losses;
    if (loss_ != nullptr) {
      const losses::LossResult loss = (*loss_)(output, targets);
      totals.add(loss);
      if (hooks.batch_end) losses = values_of(loss);
    }
    const auto pictures = originals.of(*batch);
    metrics::SharedDetections shared;
    for (auto& metric : metrics_) {
      metric->update({.output = output,
                      .targets = targets,
                      .height = images.size(2),
                      .width = images.size(3),
                      .indices = batch->indices,
                      .originals = pictures,
                      .shared = &shared});
    }
    if (hooks.batch_end) {
      seen.targets = &targets;
      seen.output = &output;
      seen.losses = &losses;
      hooks.batch_end(seen);
    }
    comm_.progress();
    if (options_.show_progress && progress.due()) {
      progress.update(fmt::format("{:3}% {}/{}", 100 * (i + 1) / batches, i + 1, batches));
    }
    if (core::signals::stop_requested()) break;
  }
  model.train(was_training);
  comm_.wait_for_all();
  // Also where it reached other ranks only.
  if (const int signal = dist::agreed_stop_signal(comm_); signal != 0)
    throw core::Interrupted(signal, "validation was interrupted");

  NamedValues values;
  if (loss_ != nullptr) {
    const auto names = loss_->component_names();
    const auto components = totals.components(*loss_, comm_);
    for (std::size_t i = 0; i < components.size(); ++i)
      values.emplace_back(names[i], components[i]);
  }
  for (auto& metric : metrics_) {
    merge_over_ranks(*metric, comm_);
    for (const auto& value : metric->compute()) values.emplace_back(value.name, value.value);
  }
  return values;
}

}  // namespace sgtrain::train
