#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/signals.h"
#include "core/text.h"
#include "dist/launcher.h"
#include "optim/clip.h"
#include "tensor/device.h"
#include "train/banner.h"

namespace sgtrain::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_metric_better(double value, double best, bool has_best, bool greater) {
  if (!std::isfinite(value)) return false;  // NaN never wins
  if (!has_best) return true;
  return greater ? value > best : value < best;
}

std::vector<std::string> logged_names(const Run& run) {
  std::vector<std::string> names = run.loss->component_names();
  for (const auto& metric : run.valid_metrics) {
    for (const auto& value : metric->describe()) names.push_back(value.name);
  }
  return names;
}

std::vector<tensor::TensorRef> reduced_parameters(models::Model& model) {
  const auto unused = model.unused_parameters();
  auto refs = model.named_parameters();
  std::erase_if(refs, [&](const tensor::TensorRef& ref) {
    return !ref.tensor->requires_grad() ||
           std::find(unused.begin(), unused.end(), ref.name) != unused.end();
  });
  return refs;
}

}  // namespace

std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == wanted) return name;
  }
  for (const std::string& name : names) {
    const std::string component = name.substr(name.rfind('/') + 1);
    if (core::fuzzy_key(name) == core::fuzzy_key(wanted) ||
        core::fuzzy_key(component) == core::fuzzy_key(wanted)) {
      return name;
    }
  }
  throw core::InputError("metric_to_watch '" + wanted + "' is none of this run's values" +
                             core::did_you_mean(wanted, names),
                         "training_hyperparams.metric_to_watch",
                         "choose one of: " + core::join(names));
}

Trainer::Trainer(Run& run)
    : run_(run),
      watched_(resolve_metric_name(run.params.metric_to_watch, logged_names(run))),
      checkpointing_(run) {
  for (const std::string& name : run.loss->component_names()) summary_.set_direction(name, false);
  for (const auto* list : {&run.train_metrics, &run.valid_metrics}) {
    for (const auto& metric : *list) {
      for (const auto& value : metric->describe())
        summary_.set_direction(value.name, value.greater_is_better);
    }
  }
}

FitResult Trainer::fit() {
  start();
  while (state_.epoch < run_.params.max_epochs && !stop_reason_) {
    train_epoch();
    if (should_validate()) validate();
    if (!run_.tests.empty() && (state_.epoch + 1) % run_.params.run_test_freq == 0) test();
    finish_epoch();
  }
  return finish();
}

void Trainer::resume(const std::filesystem::path& checkpoint) {
  checkpointing_.resume(checkpoint, state_);
}

int Trainer::batches_per_epoch() const {
  const auto all = static_cast<int>(run_.train_loader->batches());
  return run_.params.max_train_batches ? std::min(all, *run_.params.max_train_batches) : all;
}

void Trainer::start() {
  dist::broadcast_state(*run_.comm, run_.model->state());
  reducer_ = std::make_unique<dist::Reducer>(*run_.comm, reduced_parameters(*run_.model));
  evaluator_ =
      std::make_unique<Evaluator>(run_.valid_metrics, run_.loss.get(), *run_.comm,
                                  Evaluator::Options{.input = run_.input,
                                                     .precision = run_.precision,
                                                     .max_batches = run_.params.max_valid_batches,
                                                     .show_progress = !run_.params.silent_mode,
                                                     .title = "Validating"});
  dist::on_main([&] { core::log::info("{}", banner(run_, batches_per_epoch())); });
  notify(&Callback::on_training_start);
}

void Trainer::train_epoch() {
  const auto started = Clock::now();
  epoch_values_.clear();
  test_values_.clear();
  images_this_epoch_ = 0;
  run_.model->train();
  if (state_.batch == 0) {
    train_averages_ = {};
    for (auto& metric : run_.train_metrics) metric->reset();
  }
  TrainStep step(
      *run_.model, *run_.loss, *run_.comm, *reducer_,
      {.input = run_.input,
       .precision = run_.precision,
       .loss_scale = run_.params.accumulate == "mean" ? 1.0 / run_.params.batch_accumulate : 1.0,
       .scaler = run_.scaler.get()});
  progress_ = std::make_unique<core::Progress>(fmt::format("Train epoch {}: ", state_.epoch));
  schedule_lr({.epoch = state_.epoch, .batch = state_.batch, .epoch_start = true});
  notify(&Callback::on_train_loader_start);
  run_.train_loader->begin(state_.epoch, state_.batch);
  const int batches = batches_per_epoch();
  const int first = state_.batch;
  while (state_.batch < batches) {
    auto batch = run_.train_loader->next();
    if (!batch) break;
    const bool stepped = train_batch(*batch, step);
    ++state_.batch;
    ++state_.global_step;
    if (stepped && stop_requested()) stop_for_signal();
    show_progress(seconds_since(started) / (state_.batch - first));
  }
  progress_.reset();
  epoch_seconds_ = seconds_since(started);
  notify(&Callback::on_train_loader_end);
  schedule_lr({.epoch = state_.epoch, .batch = batches - 1, .epoch_end = true});
  state_.train_values = train_averages_.named(run_.loss->component_names());
  for (auto& metric : run_.train_metrics) {
    merge_over_ranks(*metric, *run_.comm);
    for (const auto& value : metric->compute())
      state_.train_values.emplace_back(value.name, value.value);
  }
}

/// Returns true after an optimizer step.
bool Trainer::train_batch(const tensor::Batch& batch, TrainStep& step) {
  schedule_lr({.epoch = state_.epoch, .batch = state_.batch});
  notify(&Callback::on_train_batch_start, &batch);
  // The reference steps whenever the count of all batches so far divides; an epoch's left-over
  // micro-batches carry over into the next epoch.
  const bool last = (state_.global_step + 1) % run_.params.batch_accumulate == 0;
  const StepOutput output = step.run(batch, last, run_.train_loader->batch_transforms(),
                                     run_.train_loader->batch_random(state_.epoch, state_.batch));
  if (!output.loss.finite) {
    handle_non_finite(output, batch);
  } else {
    state_.non_finite_in_a_row = 0;
    after_step(output, batch);
  }
  if (last && output.loss.finite) optimizer_step();
  if (last && !output.loss.finite) run_.optimizer->zero_grad();
  notify(&Callback::on_train_batch_end, &batch, &output.output);
  return last;
}

void Trainer::after_step(const StepOutput& output, const tensor::Batch& batch) {
  train_averages_.add(output.loss.components, static_cast<double>(batch.size()));
  images_this_epoch_ += batch.size();
  for (auto& metric : run_.train_metrics) {
    metric->update({.output = output.output,
                    .targets = output.targets,
                    .height = batch.images.size(1),
                    .width = batch.images.size(2),
                    .indices = batch.indices});
  }
}

void Trainer::optimizer_step() {
  if (run_.scaler) run_.scaler->unscale(*run_.optimizer);
  if (run_.params.clip_grad_norm)
    optim::clip_grad_norm(*run_.optimizer, *run_.params.clip_grad_norm);
  if (run_.scaler) {
    run_.scaler->step(*run_.optimizer);
    run_.scaler->update();
  } else {
    run_.optimizer->step();
  }
  run_.optimizer->zero_grad();
  ++state_.optimizer_steps;
  if (run_.ema) {
    const auto total = static_cast<std::int64_t>(run_.params.max_epochs) * batches_per_epoch();
    run_.ema->update(*run_.model, state_.global_step + 1, total);
  }
  schedule_lr({.epoch = state_.epoch, .batch = state_.batch, .stepped = true});
}

void Trainer::schedule_lr(const optim::Position& position) {
  for (optim::ParamGroup& group : run_.optimizer->groups()) {
    if (run_.warmup) {
      if (const auto lr = run_.warmup->at(position, group.initial_lr)) group.lr = *lr;
    }
    if (run_.schedule) {
      if (const auto lr = run_.schedule->at(position, group.initial_lr)) group.lr = *lr;
    }
  }
}

void Trainer::handle_non_finite(const StepOutput& output, const tensor::Batch& batch) {
  ++state_.non_finite_in_a_row;
  std::string where;
  const auto names = run_.loss->component_names();
  for (std::size_t i = 0; i < output.loss.components.size() && i < names.size(); ++i) {
    if (!std::isfinite(output.loss.components[i])) {
      where = fmt::format("{} is {}", names[i], output.loss.components[i]);
      break;
    }
  }
  std::string tensor = "none of the model's outputs";
  for (const auto& [name, value] : output.output.items()) {
    if (value.is_floating_point() && !at::isfinite(value).all().item<bool>()) {
      tensor = "output '" + name + "'";
      break;
    }
  }
  std::vector<std::string> images;
  for (std::size_t i = 0; i < batch.indices.size() && i < 8; ++i) {
    images.push_back(run_.train_set->image_path(batch.indices[i]));
  }
  const std::string text = fmt::format(
      "epoch {} batch {}: {}; first tensor with non-finite values: {}; images: {}; this step is "
      "skipped",
      state_.epoch, state_.batch, where, tensor, core::join(images));
  core::log::warning("{}", text);
  if (state_.non_finite_in_a_row >= run_.params.max_non_finite_steps) {
    throw core::Error(fmt::format("the loss was not finite {} times in a row; last: {}",
                                  state_.non_finite_in_a_row, text),
                      {},
                      "lower initial_lr, use precision=fp32 or check these images' boxes; the last "
                      "checkpoint is intact");
  }
}

bool Trainer::should_validate() const {
  const auto& p = run_.params;
  const int done = state_.epoch + 1;
  return done % p.run_validation_freq == 0 || done == p.max_epochs ||
         std::find(p.save_ckpt_epoch_list.begin(), p.save_ckpt_epoch_list.end(), done) !=
             p.save_ckpt_epoch_list.end();
}

void Trainer::validate() {
  notify(&Callback::on_validation_loader_start);
  try {
    const optim::EmaScope average(run_.ema.get(), *run_.model);
    state_.valid_values = evaluator_->run(*run_.model, *run_.valid_loader);
  } catch (const core::Interrupted&) {
    stop_for_signal();  // the epoch is trained: a resume goes on with its validation
  }
  epoch_values_ = state_.valid_values;
  notify(&Callback::on_validation_loader_end);
  remember_best();
}

void Trainer::test() {
  const optim::EmaScope average(run_.ema.get(), *run_.model);
  for (TestSet& set : run_.tests) {
    for (const auto& [name, value] : evaluator_->run(*run_.model, *set.loader)) {
      test_values_.emplace_back(set.name + "_" + name, value);
    }
  }
}

void Trainer::remember_best() {
  for (const auto& [name, value] : state_.valid_values) {
    if (name != watched_) continue;
    if (!is_metric_better(value, state_.best_metric, state_.has_best,
                          run_.params.greater_metric_to_watch_is_better)) {
      return;
    }
    state_.has_best = true;
    state_.best_metric = value;
    state_.best_epoch = state_.epoch;
    notify(&Callback::on_validation_end_best_epoch);
  }
}

void Trainer::finish_epoch() {
  const bool best = state_.best_epoch == state_.epoch;
  const int finished = state_.epoch;
  dist::on_main([&] { log_epoch(); });
  ++state_.epoch;
  state_.batch = 0;
  checkpointing_.save_epoch(state_, watched_, best, finished);
  if (stop_requested()) stop_for_signal();
}

void Trainer::log_epoch() {
  summary_.update("Train", state_.train_values);
  if (!epoch_values_.empty()) summary_.update("Validation", epoch_values_);
  if (!test_values_.empty()) summary_.update("Test", test_values_);
  if (!run_.params.silent_mode) {
    core::log::info("{}", summary_.render(state_.epoch, core::log::color_stderr()));
    core::log::info(
        "epoch {}: {:.1f} s, {:.1f} images/s; loader: {}", state_.epoch, epoch_seconds_,
        static_cast<double>(images_this_epoch_) * run_.comm->world_size() / epoch_seconds_,
        run_.train_loader->stats().text());
  }
  loggers::Scalars scalars;
  for (const auto& [name, value] : state_.train_values)
    scalars.emplace_back("Train_" + name, value);
  for (const auto& [name, value] : epoch_values_) scalars.emplace_back("Valid_" + name, value);
  for (const auto& [name, value] : test_values_) scalars.emplace_back("Test_" + name, value);
  const auto& groups = run_.optimizer->groups();
  for (const auto& group : groups) {
    scalars.emplace_back(groups.size() == 1 ? "LR" : "LR/" + group.name, group.lr);
  }
  scalars.emplace_back("Train Epoch Time", epoch_seconds_);
  run_.logger->add_scalars(scalars, state_.epoch);
  checkpointing_.write_results(state_, watched_, scalars);
}

FitResult Trainer::finish() {
  notify(&Callback::on_training_end);
  if (stop_reason_) core::log::info("training stopped early: {}", *stop_reason_);
  run_.logger->close();
  return {.valid_values = state_.valid_values,
          .test_values = test_values_,
          .watched = watched_,
          .best_metric = state_.best_metric,
          .best_epoch = state_.best_epoch,
          .best_checkpoint = checkpointing_.best_path()};
}

/// Ranks must leave together: a signal that reached one of them counts for all.
bool Trainer::stop_requested() {
  if (run_.comm->world_size() == 1) return core::signals::stop_requested();
  at::Tensor signal = at::full({1}, core::signals::stop_signal(), at::kInt);
  run_.comm->all_reduce(signal, dist::ReduceOp::kMax);
  const int number = signal.item<int>();
  if (number != 0 && !core::signals::stop_requested()) core::signals::request_stop(number);
  return number != 0;
}

void Trainer::stop_for_signal() {
  progress_.reset();
  const auto saved = checkpointing_.save_latest(state_, watched_);
  run_.logger->close();
  const int signal = core::signals::stop_signal();
  throw core::Interrupted(
      signal,
      fmt::format("stopped by {} at epoch {} batch {}; {}", core::signals::name(signal),
                  state_.epoch, state_.batch,
                  saved.empty() ? "nothing was saved (save_model is off)"
                                : "saved, go on with: sgtrain resume " + run_.dir.string()));
}

void Trainer::notify(Requests (Callback::*moment)(PhaseContext&), const tensor::Batch* batch,
                     const tensor::ModelOutput* output) {
  if (run_.callbacks.empty()) return;
  NamedValues metrics = state_.train_values;
  metrics.insert(metrics.end(), state_.valid_values.begin(), state_.valid_values.end());
  PhaseContext context{.state = state_,
                       .model = *run_.model,
                       .loss = *run_.loss,
                       .metrics = metrics,
                       .batch = batch,
                       .output = output,
                       .is_main = run_.comm->is_main()};
  for (auto& callback : run_.callbacks) {
    const Requests requests = (callback.get()->*moment)(context);
    if (requests.stop_training) stop_reason_ = requests.stop_training;
  }
}

void Trainer::show_progress(double seconds_per_batch) {
  if (run_.params.silent_mode || !run_.comm->is_main() || !progress_->due()) return;
  const int batches = batches_per_epoch();
  std::string losses;
  for (const auto& [name, value] : train_averages_.named(run_.loss->component_names())) {
    losses += fmt::format(", {}={:.4g}", name, value);
  }
  const int left = static_cast<int>(seconds_per_batch * (batches - state_.batch));
  const double images =
      static_cast<double>(run_.train_loader->params().batch_size) * run_.comm->world_size();
  progress_->update(
      fmt::format("{:3}% {}/{} [{:02}:{:02} left, {:.1f} images/s{}, mem={:.2f} GB]",
                  100 * state_.batch / batches, state_.batch, batches, left / 60, left % 60,
                  images / seconds_per_batch, losses,
                  static_cast<double>(tensor::memory_in_use(run_.input.device)) / 1e9));
}

}  // namespace sgtrain::train
