// The checkpoint files of a run folder: what is written when, in an order that survives a kill at
// any moment, and what is removed again.
//
// ckpt_latest.pth comes last: whatever it refers to is complete by then, and what it no longer
// needs is removed only afterwards. The one before it stays as ckpt_previous.pth. No two of these
// files share their content: each can be damaged without the others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tensor/value.h"
#include "train/state.h"
#include "train/training_params.h"

namespace sgtrain::train {

constexpr const char* kLatest = "ckpt_latest.pth";
constexpr const char* kPrevious = "ckpt_previous.pth";
constexpr const char* kAverage = "average_model.pth";
constexpr const char* kSnapshots = "averaging_snapshots";  // folder, while the run lasts

/// Which files one checkpoint makes. All names are relative to the run folder.
struct FilePlan {
  std::vector<std::string> copies;      // ckpt_best.pth, ckpt_epoch_N.pth
  std::optional<std::string> snapshot;  // of the weights alone, for the average
  std::vector<std::string> averaged;    // snapshots in slot order; empty: average as it is
  std::vector<std::string> retired;     // superfluous once ckpt_latest is there
};

/// Decides for the epoch that has just finished (`state.epoch - 1`) and notes in the state what
/// the files will hold. The same on every rank. `watched`: its value in this epoch, if validated.
FilePlan plan_files(const TrainingParams& params, TrainState& state, std::optional<double> watched);

class CheckpointFiles {
 public:
  CheckpointFiles(std::filesystem::path dir, const TrainingParams& params);

  /// Writes the plan's files and ckpt_latest. A file that cannot be written (full disk) is a
  /// warning, and what was there before stays.
  void write(const tensor::Value& content, const FilePlan& plan);
  /// The run goes on from this file of the folder: a newer one that is broken will not become
  /// ckpt_previous. Removes what the checkpoint had already given up.
  void resumed_from(const std::filesystem::path& file, const std::vector<std::string>& retired);
  /// Snapshots are for the run only.
  void remove_snapshots();

 private:
  bool write_file(const std::string& name, const tensor::Value& content);
  void copy_fresh(const std::string& name);
  void write_average(const tensor::Value& content, const std::vector<std::string>& snapshots);
  void keep_previous();
  void report_size();

  std::filesystem::path dir_;
  std::size_t most_files_;  // of the size of ckpt_latest that the folder will hold
  bool averages_;
  bool latest_is_good_ = true, reported_ = false;
  std::vector<std::string> retired_;
};

/// The newest checkpoint of a run folder that can be read: `name`, else the previous one, else the
/// best or a kept epoch, whichever is furthest. A warning names what could not be read.
/// @throws core::InputError when none can
std::filesystem::path newest_readable(const std::filesystem::path& dir, const std::string& name);

}  // namespace sgtrain::train
