// Between a run and its checkpoint files: what is written when, and what a resume restores.
#pragma once

#include <filesystem>
#include <string>

#include "loggers/logger.h"
#include "tensor/checkpoint.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

class Checkpointing {
 public:
  explicit Checkpointing(Run& run) : run_(run) {}

  /// End of an epoch, on rank 0: ckpt_latest, ckpt_best when `best`, ckpt_epoch_N when listed.
  /// `state` already points at the next epoch. A full disk is a warning; training goes on.
  void save_epoch(const TrainState& state, const std::string& watched, bool best,
                  int finished_epoch);

  /// ckpt_latest alone (signals). Returns its path; empty when nothing is written.
  std::filesystem::path save_latest(const TrainState& state, const std::string& watched);

  /// results.csv, metrics.json.
  void write_results(const TrainState& state, const std::string& watched,
                     const loggers::Scalars& scalars);

  /// Restores everything from a checkpoint of ours, or what a SuperGradients one holds.
  /// @throws core::InputError naming what does not fit this run's recipe
  void resume(const std::filesystem::path& file, TrainState& state);

  std::filesystem::path best_path() const;

 private:
  tensor::Checkpoint capture(const TrainState& state, const std::string& watched) const;
  bool write(const tensor::Checkpoint& checkpoint, const std::string& name);
  bool writes() const;

  Run& run_;
};

}  // namespace sgtrain::train
