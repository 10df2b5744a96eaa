#include "train/checkpointing.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/log.h"
#include "models/build.h"
#include "optim/state_value.h"
#include "tensor/device.h"
#include "tensor/value_tree.h"
#include "train/gather.h"
#include "train/state_file.h"

namespace sgtrain::train {
namespace {

using tensor::Value;

Value strings(const std::vector<std::string>& texts) {
  Value list = Value::list();
  for (const auto& text : texts) list.append(Value(text));
  return list;
}

Value tensors(const std::vector<at::Tensor>& list) {
  Value out = Value::list();
  for (const at::Tensor& tensor : list) out.append(Value(tensor));
  return out;
}

using Addresses = CheckpointWriter::Addresses;

void add_tensors(const Value& value, Addresses& out) {
  if (value.is_tensor()) out.insert(value.as_tensor().const_data_ptr());
  if (value.is_sequence()) {
    for (const Value& item : value.items()) add_tensors(item, out);
  }
  if (value.is_dict()) {
    for (const auto& [key, item] : value.pairs()) add_tensors(item, out);
  }
}

}  // namespace

Checkpointing::Checkpointing(Run& run, std::string watched, Resumable& summary)
    : run_(run), watched_(std::move(watched)), summary_(summary) {
  if (saves() && run_.comm->is_main())
    files_ = std::make_unique<CheckpointFiles>(run_.dir, run_.params);
}

void Checkpointing::prepare(const TrainState& state) {
  if (!saves()) return;
  const Value content = capture(state).to_value();
  if (files_) writer_.prepare(content);
}

void Checkpointing::save_epoch(TrainState& state) {
  if (!saves()) return;
  const bool validated = state.valid_epoch == state.epoch - 1;
  submit(state, plan_files(run_.params, state,
                           validated ? value_of(state.valid_values, watched_) : std::nullopt));
}

std::filesystem::path Checkpointing::save_latest(const TrainState& state) {
  if (!saves()) return {};
  submit(state, {});
  return run_.dir / kLatest;
}

void Checkpointing::submit(const TrainState& state, FilePlan plan) {
  const Value content = capture(state).to_value();
  if (!files_) return;
  writer_.submit(content, still_until_step(content),
                 [files = files_.get(), plan = std::move(plan)](const Value& copy) {
                   files->write(copy, plan);
                 });
}

/// Memory that only an optimizer step writes: parameters, their average, the optimizer's state. Not
/// buffers, which a forward pass and an exchange between ranks change, nor gradients.
Addresses Checkpointing::still_until_step(const Value& content) const {
  Addresses out;
  const Value* average = content.find("ema_net");
  for (const auto& ref : run_.model->named_parameters()) {
    out.insert(ref.tensor->const_data_ptr());
    const Value* averaged = average != nullptr ? average->find(ref.name) : nullptr;
    if (averaged != nullptr) add_tensors(*averaged, out);
  }
  add_tensors(content["optimizer_state_dict"], out);
  return out;
}

void Checkpointing::finish() {
  writer_.wait();
  if (!files_) return;
  files_->remove_snapshots();
  if (writer_.longest_copy().count() == 0) return;
  const auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  core::log::info(
      "checkpoints: the training waited {:.0f} ms at most for a copy, and {:.0f} ms for a disk "
      "that was still busy with the ones before",
      milliseconds(writer_.longest_copy()), milliseconds(writer_.longest_wait()));
}

std::filesystem::path Checkpointing::existing(const std::string& name) const {
  std::error_code ignored;
  if (run_.dir.empty() || !std::filesystem::exists(run_.dir / name, ignored)) return {};
  return run_.dir / name;
}

std::filesystem::path Checkpointing::best_path() const {
  return existing(run_.params.ckpt_best_name);
}

std::filesystem::path Checkpointing::average_path() const {
  return existing(kAverage);
}

tensor::Checkpoint Checkpointing::capture(const TrainState& state) {
  tensor::Checkpoint c;
  c.net = run_.model->state_dict();
  if (run_.ema) c.ema_net = run_.ema->state_dict();
  c.epoch = state.epoch;
  c.metrics = {
      .tracked_metric_name = watched_, .valid = state.valid_values, .train = state.train_values};
  c.acc = value_of(state.valid_values, watched_);
  if (state.has_best) {
    c.best_metrics = tensor::MetricRecord{
        .tracked_metric_name = watched_, .valid = {{watched_, state.best_metric}}, .train = {}};
  }
  c.optimizer_state_dict = optim::to_value(run_.optimizer->state_dict());
  c.scaler_state_dict = run_.scaler ? run_.scaler->state_dict() : Value::dict();
  if (run_.schedule) c.torch_scheduler_state_dict = run_.schedule->save();
  c.processing_params = run_.processing_params;
  c.sgtrain = Value::dict();
  c.sgtrain.set("architecture", run_.architecture);
  c.sgtrain.set("arch_params", tensor::value_from_tree(*run_.arch_params));
  c.sgtrain.set("num_classes", run_.model->num_classes());
  c.sgtrain.set("class_names", strings(run_.class_names));
  c.sgtrain.set("image_processor", run_.image_processor);
  c.sgtrain.set("recipe", run_.resolved_recipe);
  c.sgtrain.set("precision", std::string(tensor::precision_name(run_.precision)));
  c.sgtrain.set("world_size", run_.comm->world_size());
  c.sgtrain.set("global_batch", global_batch());
  c.sgtrain.set("state", to_value(state));
  Value generators = Value::list();
  for (const std::string& bytes : run_.comm->all_gather(tensor::rng_state(run_.input.device)))
    generators.append(Value::bytes(bytes));
  c.sgtrain.set("rng", generators);
  c.sgtrain.set("partial", capture_partial(state));
  c.sgtrain.set("parts", capture_parts());
  return c;
}

/// Metrics of an epoch and gradients of an accumulation that are not complete.
Value Checkpointing::capture_partial(const TrainState& state) {
  Value out = Value::dict();
  if (state.stage == Stage::kTrain && state.batch > 0) {
    Value by_metric = Value::list();
    for (const auto& metric : run_.train_metrics) {
      Value by_rank = Value::list();
      for (const auto& rank : gather(metric->state(), *run_.comm)) by_rank.append(tensors(rank));
      by_metric.append(by_rank);
    }
    out.set("train_metrics", by_metric);
  }
  if (run_.params.accumulation().open(state.global_step)) {
    Value gradients = Value::dict();
    for (const auto& ref : run_.model->named_parameters()) {
      if (ref.tensor->grad().defined()) gradients.set(ref.name, ref.tensor->grad());
    }
    out.set("gradients", gradients);
  }
  return out;
}

Value Checkpointing::capture_parts() const {
  Value callbacks = Value::list();
  for (const auto& [name, callback] : run_.callbacks)
    callbacks.append(Value::list({name, callback->save()}));
  Value out = Value::dict();
  out.set("callbacks", callbacks);
  out.set("summary", summary_.save());
  return out;
}

void Checkpointing::write_results(const TrainState& state, const loggers::Scalars& scalars) {
  if (run_.dir.empty() || !run_.comm->is_main()) return;
  try {
    if (!results_) results_ = std::make_unique<loggers::ResultsCsv>(run_.dir / "results.csv");
    results_->add_row(state.epoch, scalars);
    loggers::MetricsJson json{.epoch = state.epoch, .metrics = scalars};
    if (state.has_best) {
      json.watched = watched_;
      json.best_epoch = state.best_epoch;
      json.best_value = state.best_metric;
    }
    loggers::write_metrics_json(run_.dir / "metrics.json", json);
  } catch (const core::Error& error) {
    results_.reset();  // read again, without a torn last line
    core::log::warning("results were not written, training goes on: {}", error.what());
  }
}

bool Checkpointing::resume(const std::filesystem::path& file, TrainState& state) {
  const tensor::Checkpoint checkpoint = tensor::Checkpoint::read(file);
  restore_weights(checkpoint, file.string());
  restore_optimisation(checkpoint, file.string());
  const Value* own = checkpoint.sgtrain.find("state");
  if (own != nullptr) {
    state = state_from(*own);
    restore_own(checkpoint.sgtrain, file.string(), state);
  } else {
    state =
        state_of_reference(checkpoint, watched_, static_cast<int>(run_.train_loader->batches()));
  }
  const bool other_metric =
      checkpoint.metrics.tracked_metric_name != watched_ &&
      !(checkpoint.best_metrics && checkpoint.best_metrics->tracked_metric_name == watched_);
  if (other_metric) {
    state.has_best = false;  // of another metric
    state.averaged.clear();
    state.best_epochs.clear();
  }
  std::error_code none;
  if (!std::filesystem::exists(run_.dir / kSnapshots, none)) state.averaged.clear();
  if (files_ && std::filesystem::equivalent(file.parent_path(), run_.dir, none))
    files_->resumed_from(file, state.retired);
  core::log::info("resumed from {}: epoch {}, batch {}", file.string(), state.epoch, state.batch);
  return own == nullptr ? state.has_best : !other_metric;
}

void Checkpointing::restore_weights(const tensor::Checkpoint& checkpoint, const std::string& file) {
  const auto strict =
      run_.params.resume_strict_load ? models::StrictLoad::kOn : models::StrictLoad::kOff;
  const auto report = models::load_state(*run_.model, checkpoint.net, strict, file);
  if (!report.missing.empty() || !report.ignored.empty())
    core::log::warning("{}: {}", file, report.summary());
  if (!run_.ema) return;
  if (checkpoint.ema_net) {
    run_.ema->load_state_dict(*checkpoint.ema_net, file);
  } else {
    core::log::warning("{} holds no EMA weights: the average starts from its weights", file);
    run_.ema->reset(*run_.model);
  }
}

void Checkpointing::restore_optimisation(const tensor::Checkpoint& checkpoint,
                                         const std::string& file) {
  if (run_.params.load_opt_params && !checkpoint.optimizer_state_dict.is_none())
    run_.optimizer->load_state_dict(optim::from_value(checkpoint.optimizer_state_dict, file));
  if (run_.scaler && !checkpoint.scaler_state_dict.is_none())
    run_.scaler->load_state_dict(checkpoint.scaler_state_dict);
  if (run_.schedule && !checkpoint.torch_scheduler_state_dict.is_none())
    run_.schedule->load(checkpoint.torch_scheduler_state_dict);
}

void Checkpointing::restore_own(const Value& own, const std::string& file, TrainState& state) {
  const Value* world = own.find("world_size");
  const Value* rng = own.find("rng");
  const bool same_ranks = world != nullptr && world->as_int() == run_.comm->world_size();
  if (same_ranks && rng != nullptr && rng->is_sequence()) {
    const auto rank = static_cast<std::size_t>(run_.comm->rank());
    tensor::set_rng_state(run_.input.device, rng->items().at(rank).as_bytes());
  } else if (world != nullptr && !same_ranks) {
    core::log::warning(
        "the run had {} processes and goes on with {}: the same images in the same "
        "order, other random numbers inside the network (dropout)",
        world->as_int(), run_.comm->world_size());
  }
  fit_position(own, file, state);
  if (const Value* partial = own.find("partial")) restore_partial(*partial, same_ranks);
  if (const Value* parts = own.find("parts")) restore_parts(*parts);
}

/// An epoch's order of images depends on the seed alone; its batches on their global size.
void Checkpointing::fit_position(const Value& own, const std::string& file, TrainState& state) {
  const Value* before = own.find("global_batch");
  const std::int64_t now = global_batch();
  if (before == nullptr || before->as_int() == now) return;
  core::log::warning("the global batch was {} images and is {}", before->as_int(), now);
  const std::int64_t images = state.batch * before->as_int();
  if (images % now != 0) {
    throw core::InputError(
        fmt::format("{} images of this epoch are done, which are no whole batches of {}", images,
                    now),
        file,
        fmt::format("resume with a global batch that divides them, such as {}", before->as_int()));
  }
  state.batch = static_cast<int>(images / now);
  state.global_step = state.epoch * run_.train_loader->batches() + state.batch;
}

std::int64_t Checkpointing::global_batch() const {
  return run_.train_loader->params().batch_size * run_.comm->world_size();
}

/// With other ranks than before, rank 0 takes over the metrics of all.
void Checkpointing::restore_partial(const Value& partial, bool same_ranks) {
  const auto rank = static_cast<std::size_t>(run_.comm->rank());
  if (const Value* metrics = partial.find("train_metrics")) {
    const std::size_t count = std::min(metrics->items().size(), run_.train_metrics.size());
    for (std::size_t i = 0; i < count; ++i) {
      run_.train_metrics[i]->reset();
      const auto& by_rank = metrics->items()[i].items();
      for (std::size_t r = 0; r < by_rank.size(); ++r) {
        if (r != rank && (same_ranks || rank != 0)) continue;
        std::vector<at::Tensor> own;
        for (const Value& tensor : by_rank[r].items()) own.push_back(tensor.as_tensor().clone());
        if (same_ranks || rank == 0) run_.train_metrics[i]->merge(own);
      }
    }
  }
  if (const Value* gradients = partial.find("gradients")) {
    for (const auto& ref : run_.model->named_parameters()) {
      const Value* gradient = gradients->find(ref.name);
      if (gradient == nullptr) continue;
      ref.tensor->mutable_grad() = at::empty_like(*ref.tensor).copy_(gradient->as_tensor());
    }
  }
}

/// Callbacks are matched by name, and several of one name in order.
void Checkpointing::restore_parts(const Value& parts) {
  if (const Value* summary = parts.find("summary"); summary != nullptr && !summary->is_none())
    summary_.load(*summary);
  const Value* saved = parts.find("callbacks");
  if (saved == nullptr) return;
  std::vector<bool> taken(saved->items().size(), false);
  for (const auto& [name, callback] : run_.callbacks) {
    for (std::size_t k = 0; k < taken.size(); ++k) {
      const auto& entry = saved->items()[k].items();
      if (taken[k] || entry.at(0).as_string() != name) continue;
      taken[k] = true;
      if (!entry.at(1).is_none()) callback->load(entry.at(1));
      break;
    }
  }
}

}  // namespace sgtrain::train
