#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/signals.h"
#include "dist/launcher.h"
#include "dist/sync.h"
#include "models/build.h"
#include "optim/clip.h"
#include "tensor/device.h"
#include "train/banner.h"
#include "train/metric_name.h"
#include "train/non_finite.h"
#include "train/precise_bn.h"
#include "train/progress_text.h"
#include "train/replicas.h"

namespace sgtrain::train {
namespace {

using Clock = RunClock::Clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_metric_better(double value, double best, bool has_best, bool greater) {
  if (!std::isfinite(value)) return false;  // NaN never wins
  if (!has_best) return true;
  return greater ? value > best : value < best;
}

}  // namespace

Trainer::Trainer(Run& run)
    : run_(run),
      watched_(resolve_metric_name(run.params.metric_to_watch, logged_names(run))),
      checkpointing_(run, watched_, summary_),
      phases_(run, state_, watched_),
      learning_rates_(run, state_) {
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
  while (goes_on()) {
    if (state_.stage == Stage::kTrain) train_epoch();
    if (state_.stage == Stage::kValidate) validate();
    if (state_.stage == Stage::kTest) test();
    finish_epoch();
  }
  return finish();
}

void Trainer::resume(const std::filesystem::path& checkpoint) {
  const bool knows_best = checkpointing_.resume(checkpoint, state_);
  // Machines may have files of their own under that name.
  dist::check_in_sync(*run_.comm, learned_state(run_));
  const int before = state_.max_epochs, now = run_.params.max_epochs;
  if (before != 0 && before != now) {
    core::log::info("max_epochs was {} and is {}: learning rates are those of a run of {} epochs",
                    before, now, now);
    if (now > before) state_.stop_reason.reset();
    if (state_.epoch > 0 && state_.batch == 0)
      learning_rates_.set(
          {.epoch = state_.epoch - 1, .batch = batches_per_epoch() - 1, .stepped = true});
  }
  if (!goes_on()) {
    core::log::info("this run is at its end: {}; a larger max_epochs extends it",
                    state_.stop_reason.value_or(fmt::format("{} epochs are done", state_.epoch)));
  }
  needs_baseline_ = !knows_best && state_.epoch > 0 && goes_on();
}

int Trainer::batches_per_epoch() const {
  const auto all = static_cast<int>(run_.train_loader->batches());
  return run_.params.max_train_batches ? std::min(all, *run_.params.max_train_batches) : all;
}

void Trainer::start() {
  state_.max_epochs = run_.params.max_epochs;
  reducer_ =
      std::make_unique<dist::Reducer>(*run_.comm, reduced_parameters(*run_.model), run_.reducer);
  evaluator_ =
      std::make_unique<Evaluator>(run_.valid_metrics, run_.loss.get(), *run_.comm,
                                  Evaluator::Options{.input = run_.input,
                                                     .precision = run_.precision,
                                                     .max_batches = run_.params.max_valid_batches,
                                                     .show_progress = !run_.params.silent_mode,
                                                     .title = "Validating"});
  dist::on_main([&] { core::log::info("{}", banner(run_, batches_per_epoch())); });
  dist::report_started();
  phases_.notify(&Callback::on_training_start);
  if (needs_baseline_) {
    state_.valid_values = evaluate(*run_.valid_loader);
    --state_.epoch;  // they belong to the epoch before
    state_.valid_epoch = state_.epoch;
    remember_best();
    ++state_.epoch;
  }
}

void Trainer::train_epoch() {
  const auto started = Clock::now();
  seconds_ = {};
  run_.model->train();
  if (state_.batch == 0) {
    state_.loss_sums.clear();
    state_.loss_weight = 0.0;
    state_.images = 0;
    for (auto& metric : run_.train_metrics) metric->reset();
  }
  TrainStep step(*run_.model, *run_.loss, *run_.comm, *reducer_,
                 {.input = run_.input, .precision = run_.precision, .scaler = run_.scaler.get()});
  progress_ = std::make_unique<core::Progress>(fmt::format("Train epoch {}", state_.epoch));
  phases_.notify(&Callback::on_train_loader_start);
  if (state_.batch == 0) learning_rates_.step({.epoch = state_.epoch, .epoch_start = true});
  run_.train_loader->begin(state_.epoch, state_.batch);
  const int batches = batches_per_epoch();
  const int first = state_.batch;
  while (state_.batch < batches) {
    const auto asked = Clock::now();
    auto batch = run_.train_loader->next();
    const auto got = Clock::now();
    clock_.add(Work::kData, got - asked);
    seconds_.data += std::chrono::duration<double>(got - asked).count();
    if (!batch) break;
    if (state_.batch == first) {
      clock_.epoch_begins();
      core::log::debug("epoch {}: first batch ready", state_.epoch);
    }
    const bool stepped = train_batch(*batch, step);
    ++state_.batch;
    ++state_.global_step;
    clock_.add(Work::kStep, Clock::now() - got);
    seconds_.steps += seconds_since(got);
    seconds_.all = seconds_since(started);
    ++seconds_.batches;
    if (stepped && !std::exchange(prepared_, true)) checkpointing_.prepare(state_);
    if (stepped) save_or_stop();
    show_progress();
  }
  clock_.epoch_ends();
  progress_.reset();
  close_train_epoch();
}

void Trainer::close_train_epoch() {
  // Gradients that wait for the next epoch's first step are local to each rank. Their mean over
  // ranks leads to the same step, is the same everywhere and can be saved.
  const bool open = run_.params.accumulation().open(state_.global_step);
  if (open && run_.comm->world_size() > 1) average_gradients(run_);
  share_buffers(run_);
  state_.train_values.clear();
  const auto names = run_.loss->component_names();
  for (std::size_t i = 0; i < state_.loss_sums.size() && i < names.size(); ++i)
    state_.train_values.emplace_back(names[i], state_.loss_sums[i] / state_.loss_weight);
  for (auto& metric : run_.train_metrics) {
    merge_over_ranks(*metric, *run_.comm);
    for (const auto& value : metric->compute())
      state_.train_values.emplace_back(value.name, value.value);
  }
  phases_.notify(&Callback::on_train_loader_end);
  learning_rates_.step(
      {.epoch = state_.epoch, .batch = batches_per_epoch() - 1, .epoch_end = true});
  if (run_.params.precise_bn) update_batch_norm(run_, state_.epoch, precise_bn_batches(run_));
  state_.stage = should_validate() ? Stage::kValidate : Stage::kTest;
}

/// Returns true after an optimizer step, done or skipped.
bool Trainer::train_batch(const tensor::Batch& batch, TrainStep& step) {
  const Accumulation accumulation = run_.params.accumulation();
  const bool last = accumulation.ends(state_.batch, state_.global_step, batches_per_epoch());
  const double share = accumulation.share(state_.batch, batches_per_epoch());
  const StepOutput output =
      step.run(batch, last, share, run_.train_loader->batch_transforms(),
               run_.train_loader->batch_random(state_.epoch, state_.batch), step_hooks(batch));
  if (!output.loss.finite) skip_step(describe_loss(run_, output), batch);
  if (last && output.loss.finite) optimizer_step(batch);
  if (last && !output.loss.finite) run_.optimizer->zero_grad();
  phases_.notify(&Callback::on_train_batch_end, event_of(batch, output));
  return last;
}

Event Trainer::event_of(const tensor::Batch& batch, const StepOutput& output) const {
  return {.batch_index = state_.batch,
          .batch = &batch,
          .targets = &output.targets,
          .output = &output.output,
          .losses = &output.loss.components};
}

StepHooks Trainer::step_hooks(const tensor::Batch& batch) {
  return {
      .before_forward =
          [this, &batch](at::Tensor& images, tensor::Targets& targets) {
            const Event now{.batch_index = state_.batch, .batch = &batch, .targets = &targets};
            phases_.before_forward(images, targets, now);
            phases_.notify(&Callback::on_train_batch_start, now);
            learning_rates_.step({.epoch = state_.epoch, .batch = state_.batch});
          },
      .loss_end =
          [this, &batch](const StepOutput& output) {
            if (output.loss.finite) take_loss(output, batch);
            phases_.notify(&Callback::on_train_batch_loss_end, event_of(batch, output));
            learning_rates_.step({.epoch = state_.epoch, .batch = state_.batch, .loss_end = true});
          },
      .backward_end =
          [this, &batch](const StepOutput& output) {
            phases_.notify(&Callback::on_train_batch_backward_end, event_of(batch, output));
          }};
}

void Trainer::take_loss(const StepOutput& output, const tensor::Batch& batch) {
  const double weight = output.loss.images;
  state_.loss_sums.resize(output.loss.components.size(), 0.0);
  for (std::size_t i = 0; i < state_.loss_sums.size(); ++i)
    state_.loss_sums[i] += output.loss.components[i] * weight;
  state_.loss_weight += weight;
  state_.images += batch.size();
  for (auto& metric : run_.train_metrics) {
    metric->update({.output = output.output,
                    .targets = output.targets,
                    .height = output.height,
                    .width = output.width,
                    .indices = batch.indices});
  }
}

void Trainer::optimizer_step(const tensor::Batch& batch) {
  const Event event{.batch_index = state_.batch, .batch = &batch};
  checkpointing_.settle();
  phases_.notify(&Callback::on_train_batch_gradient_step_start, event);
  if (run_.scaler) run_.scaler->unscale(*run_.optimizer);
  // Without a scaler a gradient that is no number is found by the norm, which clipping needs too.
  const auto& limit = run_.params.clip_grad_norm;
  const auto gradients = run_.optimizer->gradients();
  at::Tensor norm;
  if (!run_.scaler || limit) norm = optim::grad_norm(gradients);
  if (!run_.scaler && !std::isfinite(norm.item<double>())) {
    skip_step(describe_gradients(run_), batch);
    run_.optimizer->zero_grad();
    return;
  }
  state_.non_finite_in_a_row = 0;
  if (limit) optim::clip_grad_norm(gradients, norm, *limit);
  if (run_.scaler) {
    if (!run_.scaler->step(*run_.optimizer))
      core::log::warning("epoch {} batch {}: gradients overflow at loss scale {}; step skipped",
                         state_.epoch, state_.batch, run_.scaler->current_scale());
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
  if (run_.check_every > 0 && state_.optimizer_steps % run_.check_every == 0)
    dist::check_in_sync(*run_.comm, learned_state(run_));
  phases_.notify(&Callback::on_train_batch_gradient_step_end, event);
  learning_rates_.step({.epoch = state_.epoch, .batch = state_.batch, .stepped = true});
}

void Trainer::skip_step(const std::string& what, const tensor::Batch& batch) {
  ++state_.non_finite_in_a_row;
  const std::string text =
      fmt::format("epoch {} batch {}: {}; images: {}; this step is skipped", state_.epoch,
                  state_.batch, what, describe_images(run_, batch));
  core::log::warning("{}", text);
  if (state_.non_finite_in_a_row >= run_.params.max_non_finite_steps) {
    checkpointing_.wait();
    throw core::Error(
        fmt::format("{} steps in a row were skipped; last: {}", state_.non_finite_in_a_row, text),
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

bool Trainer::should_test() const {
  return !run_.tests.empty() && (state_.epoch + 1) % run_.params.run_test_freq == 0;
}

/// With the moving average where there is one. A signal ends the run here: the stage says where a
/// resume goes on.
NamedValues Trainer::evaluate(loader::Loader& loader, const EvaluationHooks& hooks) {
  const Timed timed(clock_, Work::kValidation);
  std::optional<NamedValues> values;
  try {
    const optim::EmaScope average(run_.ema.get(), *run_.model);
    values = evaluator_->run(*run_.model, loader, hooks);
  } catch (const core::Interrupted&) {
  }
  if (!values) stop_for_signal();
  return *values;
}

void Trainer::validate() {
  phases_.notify(&Callback::on_validation_loader_start);
  state_.valid_values = evaluate(
      *run_.valid_loader,
      phases_.hooks(&Callback::on_validation_batch_start, &Callback::on_validation_batch_end));
  state_.valid_epoch = state_.epoch;
  phases_.notify(&Callback::on_validation_loader_end);
  learning_rates_.step({.epoch = state_.epoch, .validation_end = true});
  state_.stage = Stage::kTest;
}

void Trainer::test() {
  if (!should_test()) return;
  NamedValues values;
  for (TestSet& set : run_.tests) {
    phases_.notify(&Callback::on_test_loader_start, {.test_set = &set.name});
    for (const auto& [name, value] :
         evaluate(*set.loader, phases_.hooks(&Callback::on_test_batch_start,
                                             &Callback::on_test_batch_end, &set.name))) {
      values.emplace_back(set.name + "_" + name, value);
    }
  }
  state_.test_values = std::move(values);
  state_.test_epoch = state_.epoch;
  for (const TestSet& set : run_.tests)
    phases_.notify(&Callback::on_test_loader_end, {.test_set = &set.name});
  learning_rates_.step({.epoch = state_.epoch, .test_end = true});
}

void Trainer::remember_best() {
  if (state_.valid_epoch != state_.epoch) return;
  const auto value = value_of(state_.valid_values, watched_);
  if (!value || !is_metric_better(*value, state_.best_metric, state_.has_best,
                                  run_.params.greater_metric_to_watch_is_better)) {
    return;
  }
  state_.has_best = true;
  state_.best_metric = *value;
  state_.best_epoch = state_.epoch;
  phases_.notify(&Callback::on_validation_end_best_epoch);
  learning_rates_.step({.epoch = state_.epoch, .best_epoch = true});
}

void Trainer::finish_epoch() {
  remember_best();
  dist::on_main([&] { log_epoch(); });
  ++state_.epoch;
  state_.batch = 0;
  state_.stage = Stage::kTrain;
  {
    const Timed timed(clock_, Work::kCheckpoint);
    checkpointing_.save_epoch(state_);
    last_save_ = Clock::now();
  }
  if (dist::agreed_stop_signal(*run_.comm) != 0) stop_for_signal();
}

void Trainer::log_epoch() {
  const bool validated = state_.valid_epoch == state_.epoch;
  const bool tested = state_.test_epoch == state_.epoch;
  summary_.update("Train", state_.train_values);
  if (validated) summary_.update("Validation", state_.valid_values);
  if (tested) summary_.update("Test", state_.test_values);
  loggers::Scalars scalars;
  const auto add = [&](const char* prefix, const NamedValues& values) {
    for (const auto& [name, value] : values) scalars.emplace_back(prefix + name, value);
  };
  add("Train_", state_.train_values);
  if (validated) add("Valid_", state_.valid_values);
  if (tested) add("Test_", state_.test_values);
  const auto& groups = run_.optimizer->groups();
  for (const auto& group : groups) {
    scalars.emplace_back(groups.size() == 1 ? "LR" : "LR/" + group.name, group.lr);
  }
  scalars.emplace_back("Train Epoch Time", seconds_.all);
  scalars.emplace_back("Train Iter Time", seconds_.iteration());
  scalars.emplace_back("Train Data Time", seconds_.waiting());
  if (!run_.params.silent_mode) show_epoch(run_, state_, summary_, seconds_, scalars);
  run_.logger->add_scalars(scalars, state_.epoch);
  checkpointing_.write_results(state_, scalars);
}

FitResult Trainer::finish() {
  checkpointing_.wait();
  const NamedValues average_values = validate_average();
  checkpointing_.finish();
  phases_.notify(&Callback::on_training_end);
  if (state_.stop_reason) core::log::info("training stopped early: {}", *state_.stop_reason);
  dist::on_main([&] {
    core::log::info("{}; peak memory of a process: {:.0f} MiB", clock_.text(),
                    static_cast<double>(tensor::peak_memory(run_.input.device)) / (1 << 20));
    if (const std::string text = traffic_text(reducer_->traffic()); !text.empty())
      core::log::info("{}", text);
  });
  run_.logger->close();
  return {.valid_values = state_.valid_values,
          .test_values = state_.test_values,
          .average_values = average_values,
          .table = summary_.table(average_values),
          .watched = watched_,
          .best_metric = state_.best_metric,
          .best_epoch = state_.best_epoch,
          .best_checkpoint = checkpointing_.best_path()};
}

/// The mean of the best epochs' weights, scored as the reference does; the model keeps its own.
NamedValues Trainer::validate_average() {
  const bool there = run_.comm->broadcast(checkpointing_.average_path().string()) != "";
  if (!there || state_.averaged.empty()) return {};
  tensor::StateDict own;
  for (const auto& [name, value] : run_.model->state_dict()) own.emplace_back(name, value.clone());
  const auto file = run_.dir / kAverage;
  dist::on_main([&] {
    models::load_state(*run_.model, tensor::read_weights(file).tensors, models::StrictLoad::kOn,
                       file.string());
  });
  dist::broadcast_state(*run_.comm, run_.model->state());
  phases_.notify(&Callback::on_average_best_models_validation_start);
  std::optional<NamedValues> values;
  try {
    const Timed timed(clock_, Work::kValidation);
    values = evaluator_->run(*run_.model, *run_.valid_loader);
  } catch (const core::Interrupted&) {
  }
  models::load_state(*run_.model, own, models::StrictLoad::kOn, "the run's weights");
  if (!values) stop_for_signal();
  loggers::Scalars scalars;
  std::string text;
  for (const auto& [name, value] : *values) {
    scalars.emplace_back("Averaged Model " + name, value);
    text += fmt::format("Averaged Model {}: {:.3f}\n", name, value);
  }
  run_.logger->add_scalars(scalars, run_.params.max_epochs);
  run_.logger->add_text("Averaged_Model_Performance", text, run_.params.max_epochs);
  dist::on_main([&] { core::log::info("{}", text); });
  phases_.notify(&Callback::on_average_best_models_validation_end);
  return *values;
}

/// Between steps: ranks must save and leave together, so that what reached one of them counts for
/// all, and rank 0 decides what is due.
void Trainer::save_or_stop() {
  const auto& minutes = run_.params.save_every_minutes;
  int due = minutes && seconds_since(last_save_) >= *minutes * 60.0 ? 1 : 0;
  if (minutes && run_.comm->world_size() > 1) {
    at::Tensor decision = at::full({1}, due, at::kInt);
    run_.comm->broadcast(decision);
    due = decision.item<int>();
  }
  if (dist::agreed_stop_signal(*run_.comm) != 0) stop_for_signal();
  if (due == 0) return;
  const Timed timed(clock_, Work::kCheckpoint);
  checkpointing_.save_latest(state_);
  last_save_ = Clock::now();
}

void Trainer::stop_for_signal() {
  progress_.reset();
  const auto saved = checkpointing_.save_latest(state_);
  checkpointing_.wait();
  run_.logger->close();
  const int signal = core::signals::stop_signal();
  throw core::Interrupted(
      signal,
      fmt::format("stopped by {} at epoch {} batch {}; {}", core::signals::name(signal),
                  state_.epoch, state_.batch,
                  saved.empty() ? "nothing was saved (save_model is off)"
                                : "saved, go on with: sgtrain resume " + run_.dir.string()));
}

void Trainer::show_progress() {
  if (run_.params.silent_mode || !run_.comm->is_main() || !progress_->due()) return;
  progress_->update(progress_text(run_, state_, batches_per_epoch(), seconds_));
}

}  // namespace sgtrain::train
