// Between a run and its checkpoint files: what is written when, and what a resume restores.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "loggers/logger.h"
#include "loggers/results.h"
#include "tensor/checkpoint.h"
#include "train/checkpoint_files.h"
#include "train/checkpoint_writer.h"
#include "train/resumable.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

/// Everything a resumed run needs is in one file: the weights, their moving average, optimizer,
/// schedule and loss scale; and under "sgtrain" TrainState, the random generators of every rank,
/// metrics and gradients of an epoch or accumulation that is not complete, and what callbacks and
/// the epoch summary hold.
///
/// Files are written by a thread from a copy, most of which it makes itself while the next forward
/// pass runs: call settle() before the weights, their average or the optimizer's state change, and
/// wait() before the process ends. The functions that save are collective: every rank calls them
/// with the same state.
class Checkpointing {
 public:
  /// @param watched resolved name of metric_to_watch
  /// @param summary saved along
  Checkpointing(Run& run, std::string watched, Resumable& summary);

  /// After the first step of a run, when all there is to save exists: takes memory for it.
  void prepare(const TrainState& state);
  /// End of an epoch; `state` already points at the next one. Notes in it which epochs the files
  /// hold.
  void save_epoch(TrainState& state);
  /// ckpt_latest alone, within an epoch. Returns its path; empty when nothing is written.
  std::filesystem::path save_latest(const TrainState& state);
  /// Before an optimizer step: what it changes has been copied when this returns.
  void settle() { writer_.settle(); }
  /// Until everything is on the disk.
  void wait() { writer_.wait(); }
  /// The run is over: the snapshots of the average are removed. Waits.
  void finish();

  /// results.csv, metrics.json. On rank 0.
  void write_results(const TrainState& state, const loggers::Scalars& scalars);

  /// Restores everything from a checkpoint of ours, or what a SuperGradients one holds. Before the
  /// reducer is made. False: the best value of the watched metric before this is not known.
  /// @throws core::InputError naming what does not fit this run's recipe
  bool resume(const std::filesystem::path& file, TrainState& state);

  std::filesystem::path best_path() const;
  std::filesystem::path average_path() const;

 private:
  bool saves() const { return run_.params.save_model && !run_.dir.empty(); }
  void submit(const TrainState& state, FilePlan plan);
  CheckpointWriter::Addresses still_until_step(const tensor::Value& content) const;
  tensor::Checkpoint capture(const TrainState& state);
  tensor::Value capture_partial(const TrainState& state);
  tensor::Value capture_parts() const;
  void restore_weights(const tensor::Checkpoint& checkpoint, const std::string& file);
  void restore_optimisation(const tensor::Checkpoint& checkpoint, const std::string& file);
  void restore_own(const tensor::Value& own, const std::string& file, TrainState& state);
  void fit_position(const tensor::Value& own, const std::string& file, TrainState& state);
  void restore_partial(const tensor::Value& partial, bool same_ranks);
  void restore_parts(const tensor::Value& parts);
  std::int64_t global_batch() const;  // images per step of all processes
  std::filesystem::path existing(const std::string& name) const;

  Run& run_;
  std::string watched_;
  Resumable& summary_;
  std::unique_ptr<loggers::ResultsCsv> results_;
  std::unique_ptr<CheckpointFiles> files_;  // rank 0
  CheckpointWriter writer_;                 // ends before what its job uses
};

}  // namespace sgtrain::train
