#include "train/banner.h"

#include <fmt/format.h>

#include <cmath>

#include "tensor/device.h"

namespace sgtrain::train {
namespace {

std::string millions(std::int64_t count) {
  return fmt::format("{:.2f} M", static_cast<double>(count) / 1e6);
}

std::string scaling_text(const LrScaling& scaling) {
  if (scaling.rule == "none") {
    return scaling.linear == 1.0
               ? "none"
               : fmt::format("none (lr_scaling=linear would multiply by {:g})", scaling.linear);
  }
  const bool root = scaling.rule == "sqrt";
  return fmt::format("{}: times {:g}", scaling.rule,
                     root ? std::sqrt(scaling.linear) : scaling.linear);
}

}  // namespace

std::string banner(Run& run, int batches_per_epoch) {
  const auto& p = run.params;
  const std::int64_t world = run.comm->world_size();
  const std::int64_t batch = run.train_loader->params().batch_size;
  const std::int64_t step_images = world * batch * p.batch_accumulate;
  std::int64_t total = 0, trained = 0;
  for (const auto& ref : run.model->named_parameters()) {
    total += ref.tensor->numel();
    if (ref.tensor->requires_grad()) trained += ref.tensor->numel();
  }
  std::string text = "TRAINING PARAMETERS\n";
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28}{}\n", name, value);
  };
  row("Experiment", run.experiment_name + (run.dir.empty() ? "" : " -> " + run.dir.string()));
  row("Device", fmt::format("{}, {} process{}, {}", tensor::describe_device(run.input.device),
                            world, world == 1 ? "" : "es", tensor::precision_name(run.precision)));
  row("Model", fmt::format("{}, {} parameters, {} optimised", run.architecture, millions(total),
                           millions(trained)));
  row("Training images", std::to_string(run.train_set->size()));
  row("Validation images", run.valid_set ? std::to_string(run.valid_set->size()) : "none");
  row("Batch size per process", std::to_string(batch));
  row("Accumulated batches", std::to_string(p.batch_accumulate));
  row("Global batch size",
      fmt::format("{} = {} x {} x {}", step_images, world, batch, p.batch_accumulate));
  row("Batches per epoch", std::to_string(batches_per_epoch));
  row("Optimizer steps per epoch", std::to_string(batches_per_epoch / p.batch_accumulate));
  row("Learning rate scaling", scaling_text(run.lr_scaling));
  for (const auto& group : run.optimizer->groups()) {
    row("Learning rate " + group.name,
        fmt::format("{:g}, weight decay {:g}, {} tensors", group.initial_lr, group.weight_decay,
                    group.params.size()));
  }
  text.pop_back();
  return text;
}

}  // namespace sgtrain::train
