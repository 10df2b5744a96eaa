// The training run, to be read top-down: fit() is the whole story.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/log.h"
#include "train/checkpointing.h"
#include "train/epoch_summary.h"
#include "train/evaluator.h"
#include "train/learning_rates.h"
#include "train/phases.h"
#include "train/progress_text.h"
#include "train/run.h"
#include "train/run_clock.h"
#include "train/state.h"

namespace sgtrain::train {

struct FitResult {
  NamedValues valid_values, test_values;  // of the last epoch that had them
  NamedValues average_values;             // of the averaged model; empty: there is none
  std::string table;                      // last, best and averaged values, for people
  std::string watched;                    // resolved name of metric_to_watch
  double best_metric = 0.0;
  int best_epoch = -1;  // 0-based
  std::filesystem::path best_checkpoint;
};

class Trainer {
 public:
  /// @throws core::InputError when metric_to_watch names nothing (before any data is read)
  explicit Trainer(Run& run);

  /// Trains to the end. A signal ends the run after the current optimizer step: everything is saved
  /// and core::Interrupted is thrown. Values are equal on every rank.
  FitResult fit();

  /// Goes on from a checkpoint exactly (train/checkpointing.h). A larger max_epochs extends the
  /// run. Before fit().
  void resume(const std::filesystem::path& checkpoint);

  const TrainState& state() const { return state_; }

 private:
  // The story, in order.
  void start();
  bool goes_on() const { return state_.epoch < run_.params.max_epochs && !state_.stop_reason; }
  void train_epoch();
  void validate();
  void test();
  void finish_epoch();
  FitResult finish();

  // Parts of an epoch.
  bool train_batch(const tensor::Batch& batch, TrainStep& step);
  Event event_of(const tensor::Batch& batch, const StepOutput& output) const;
  StepHooks step_hooks(const tensor::Batch& batch);
  void take_loss(const StepOutput& output, const tensor::Batch& batch);
  void optimizer_step(const tensor::Batch& batch);
  void close_train_epoch();
  bool should_validate() const;
  bool should_test() const;
  NamedValues evaluate(loader::Loader& loader, const EvaluationHooks& hooks = {});
  void remember_best();
  NamedValues validate_average();
  void log_epoch();
  void show_progress();

  // Stopping and saving.
  void skip_step(const std::string& what, const tensor::Batch& batch);
  void save_or_stop();
  [[noreturn]] void stop_for_signal();

  int batches_per_epoch() const;

  Run& run_;
  TrainState state_;
  std::string watched_;
  EpochSummary summary_;
  Checkpointing checkpointing_;
  Phases phases_;
  LearningRates learning_rates_;

  std::unique_ptr<dist::Reducer> reducer_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<core::Progress> progress_;
  RunClock clock_;
  RunClock::Clock::time_point last_save_ = RunClock::Clock::now();
  EpochSeconds seconds_;
  bool prepared_ = false;        // memory for checkpoints is taken
  bool needs_baseline_ = false;  // resumed without a best value of the watched metric
};

}  // namespace sgtrain::train
