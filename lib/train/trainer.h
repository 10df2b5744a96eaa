// The training run, to be read top-down: fit() is the whole story.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "core/log.h"
#include "train/averages.h"
#include "train/checkpointing.h"
#include "train/epoch_summary.h"
#include "train/evaluator.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

struct FitResult {
  NamedValues valid_values, test_values;  // of the last epoch that had them
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

  /// Continues from a checkpoint: weights, optimizer, EMA, position, best metric.
  void resume(const std::filesystem::path& checkpoint);

 private:
  void start();
  void train_epoch();
  bool train_batch(const tensor::Batch& batch, TrainStep& step);
  void optimizer_step();
  void after_step(const StepOutput& output, const tensor::Batch& batch);
  bool should_validate() const;
  void validate();
  void test();
  void remember_best();
  void finish_epoch();
  FitResult finish();
  bool stop_requested();
  [[noreturn]] void stop_for_signal();

  void schedule_lr(const optim::Position& position);
  void handle_non_finite(const StepOutput& output, const tensor::Batch& batch);
  void notify(Requests (Callback::*moment)(PhaseContext&), const tensor::Batch* batch = nullptr,
              const tensor::ModelOutput* output = nullptr);
  void show_progress(double seconds_per_batch);
  void log_epoch();
  int batches_per_epoch() const;

  Run& run_;
  TrainState state_;
  std::string watched_;
  std::optional<std::string> stop_reason_;

  std::unique_ptr<dist::Reducer> reducer_;
  std::unique_ptr<Evaluator> evaluator_;
  Checkpointing checkpointing_;
  Averages train_averages_;
  EpochSummary summary_;
  NamedValues epoch_values_, test_values_;  // of the epoch that runs
  std::unique_ptr<core::Progress> progress_;
  double epoch_seconds_ = 0.0;
  std::int64_t images_this_epoch_ = 0;
};

/// The logged name that `wanted` means: exact, else the same fuzzy key, else the component of a
/// loss. @throws core::InputError listing the names, with the nearest one
std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names);

}  // namespace sgtrain::train
