#include "train/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "loggers/results.h"
#include "models/build.h"
#include "optim/state_value.h"
#include "tensor/device.h"
#include "tensor/value_tree.h"

namespace sgtrain::train {
namespace {

constexpr const char* kLatest = "ckpt_latest.pth";

tensor::Value to_value(const NamedValues& values) {
  tensor::Value out = tensor::Value::dict();
  for (const auto& [name, value] : values) out.set(name, value);
  return out;
}

NamedValues to_named(const tensor::Value* value) {
  NamedValues out;
  if (value == nullptr || !value->is_dict()) return out;
  for (const auto& [name, number] : value->pairs())
    out.emplace_back(name.as_string(), number.as_double());
  return out;
}

tensor::Value state_value(const TrainState& s) {
  tensor::Value v = tensor::Value::dict();
  v.set("epoch", s.epoch);
  v.set("batch", s.batch);
  v.set("global_step", s.global_step);
  v.set("optimizer_steps", s.optimizer_steps);
  v.set("has_best", s.has_best);
  v.set("best_metric", s.best_metric);
  v.set("best_epoch", s.best_epoch);
  v.set("train_values", to_value(s.train_values));
  v.set("valid_values", to_value(s.valid_values));
  return v;
}

TrainState state_from(const tensor::Value& v) {
  TrainState s;
  s.epoch = static_cast<int>(v["epoch"].as_int());
  s.batch = static_cast<int>(v["batch"].as_int());
  s.global_step = v["global_step"].as_int();
  s.optimizer_steps = v["optimizer_steps"].as_int();
  s.has_best = v["has_best"].as_bool();
  s.best_metric = v["best_metric"].as_double();
  s.best_epoch = static_cast<int>(v["best_epoch"].as_int());
  s.train_values = to_named(v.find("train_values"));
  s.valid_values = to_named(v.find("valid_values"));
  return s;
}

/// Where a checkpoint of the reference stands: whole epochs, best metric by its record.
TrainState state_of_reference(const tensor::Checkpoint& checkpoint, const std::string& watched,
                              int batches) {
  TrainState s;
  s.epoch = static_cast<int>(checkpoint.epoch);
  s.global_step = static_cast<std::int64_t>(s.epoch) * batches;
  if (checkpoint.best_metrics && checkpoint.best_metrics->tracked_metric_name == watched) {
    for (const auto& [name, value] : checkpoint.best_metrics->valid) {
      if (name == watched) {
        s.has_best = true;
        s.best_metric = value;
      }
    }
  }
  return s;
}

tensor::Value strings(const std::vector<std::string>& texts) {
  tensor::Value list = tensor::Value::list();
  for (const auto& text : texts) list.append(tensor::Value(text));
  return list;
}

}  // namespace

bool Checkpointing::writes() const {
  return run_.params.save_model && !run_.dir.empty() && run_.comm->is_main();
}

std::filesystem::path Checkpointing::best_path() const {
  const auto path = run_.dir / run_.params.ckpt_best_name;
  std::error_code ignored;
  return run_.dir.empty() || !std::filesystem::exists(path, ignored) ? std::filesystem::path{}
                                                                     : path;
}

tensor::Checkpoint Checkpointing::capture(const TrainState& state,
                                          const std::string& watched) const {
  tensor::Checkpoint c;
  c.net = run_.model->state_dict();
  if (run_.ema) c.ema_net = run_.ema->state_dict();
  c.epoch = state.epoch;
  c.metrics = {
      .tracked_metric_name = watched, .valid = state.valid_values, .train = state.train_values};
  for (const auto& [name, value] : state.valid_values) {
    if (name == watched) c.acc = value;
  }
  if (state.has_best) {
    c.best_metrics = tensor::MetricRecord{
        .tracked_metric_name = watched, .valid = {{watched, state.best_metric}}, .train = {}};
  }
  c.optimizer_state_dict = optim::to_value(run_.optimizer->state_dict());
  c.scaler_state_dict = run_.scaler ? run_.scaler->state_dict() : tensor::Value::dict();
  c.processing_params = run_.processing_params;
  c.sgtrain = tensor::Value::dict();
  c.sgtrain.set("architecture", run_.architecture);
  c.sgtrain.set("arch_params", tensor::value_from_tree(*run_.arch_params));
  c.sgtrain.set("num_classes", run_.model->num_classes());
  c.sgtrain.set("class_names", strings(run_.class_names));
  c.sgtrain.set("image_processor", run_.image_processor);
  c.sgtrain.set("recipe", run_.resolved_recipe);
  c.sgtrain.set("precision", std::string(tensor::precision_name(run_.precision)));
  c.sgtrain.set("world_size", run_.comm->world_size());
  c.sgtrain.set("state", state_value(state));
  c.sgtrain.set("rng", tensor::Value::bytes(tensor::rng_state(run_.input.device)));
  return c;
}

bool Checkpointing::write(const tensor::Checkpoint& checkpoint, const std::string& name) {
  try {
    checkpoint.write(run_.dir / name);
    return true;
  } catch (const core::Error& error) {
    core::log::warning("{} was not written, training goes on: {}", name, error.what());
    return false;
  }
}

void Checkpointing::save_epoch(const TrainState& state, const std::string& watched, bool best,
                               int finished_epoch) {
  if (!writes()) return;
  const tensor::Checkpoint checkpoint = capture(state, watched);
  write(checkpoint, kLatest);
  if (best) write(checkpoint, run_.params.ckpt_best_name);
  const auto& listed = run_.params.save_ckpt_epoch_list;
  if (std::find(listed.begin(), listed.end(), finished_epoch + 1) != listed.end()) {
    write(checkpoint, fmt::format("ckpt_epoch_{}.pth", finished_epoch + 1));
  }
}

std::filesystem::path Checkpointing::save_latest(const TrainState& state,
                                                 const std::string& watched) {
  if (!run_.params.save_model || run_.dir.empty()) return {};
  if (run_.comm->is_main() && !write(capture(state, watched), kLatest)) return {};
  return run_.dir / kLatest;
}

void Checkpointing::write_results(const TrainState& state, const std::string& watched,
                                  const loggers::Scalars& scalars) {
  if (run_.dir.empty() || !run_.comm->is_main()) return;
  try {
    loggers::ResultsCsv(run_.dir / "results.csv").add_row(state.epoch, scalars);
    loggers::MetricsJson json{.epoch = state.epoch, .metrics = scalars};
    if (state.has_best) {
      json.watched = watched;
      json.best_epoch = state.best_epoch;
      json.best_value = state.best_metric;
    }
    loggers::write_metrics_json(run_.dir / "metrics.json", json);
  } catch (const core::Error& error) {
    core::log::warning("results were not written, training goes on: {}", error.what());
  }
}

void Checkpointing::resume(const std::filesystem::path& file, TrainState& state) {
  const tensor::Checkpoint checkpoint = tensor::Checkpoint::read(file);
  models::load_state(*run_.model, checkpoint.net, models::StrictLoad::kOn, file.string());
  if (run_.ema) {
    if (checkpoint.ema_net) {
      run_.ema->load_state_dict(*checkpoint.ema_net, file.string());
    } else {
      core::log::warning("{} holds no EMA weights: the average starts from its weights",
                         file.string());
      run_.ema->reset(*run_.model);
    }
  }
  if (run_.params.load_opt_params && !checkpoint.optimizer_state_dict.is_none()) {
    run_.optimizer->load_state_dict(
        optim::from_value(checkpoint.optimizer_state_dict, file.string()));
  }
  if (run_.scaler && !checkpoint.scaler_state_dict.is_none())
    run_.scaler->load_state_dict(checkpoint.scaler_state_dict);
  const auto* own = checkpoint.sgtrain.find("state");
  const auto batches = static_cast<int>(run_.train_loader->batches());
  state = own != nullptr
              ? state_from(*own)
              : state_of_reference(checkpoint, checkpoint.metrics.tracked_metric_name, batches);
  const auto* rng = checkpoint.sgtrain.find("rng");
  const auto* world = checkpoint.sgtrain.find("world_size");
  if (rng != nullptr && world != nullptr && world->as_int() == run_.comm->world_size()) {
    tensor::set_rng_state(run_.input.device, rng->as_bytes());
  }
  core::log::info("resumed from {}: epoch {}, batch {}", file.string(), state.epoch, state.batch);
}

}  // namespace sgtrain::train
