#include "train/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/log.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"
#include "train/averaging.h"

namespace sgtrain::train {
namespace fs = std::filesystem;
namespace {

using tensor::Value;

constexpr const char* kFresh = ".ckpt_new.pth";  // complete, on its way to ckpt_latest

std::string epoch_file(int epoch) {
  return fmt::format("ckpt_epoch_{}.pth", epoch + 1);
}

std::string snapshot_file(int epoch) {
  return fmt::format("{}/epoch_{}.pth", kSnapshots, epoch + 1);
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// keep_last_n and keep_best_k; epochs of save_ckpt_epoch_list are never given up.
void plan_kept(const TrainingParams& params, TrainState& state, std::optional<double> watched,
               FilePlan& plan) {
  const int finished = state.epoch - 1;
  if (watched) {
    offer_epoch(state.best_epochs, {finished, *watched}, params.greater_metric_to_watch_is_better,
                static_cast<std::size_t>(params.keep_best_k));
  }
  const auto held = [&](int epoch) {
    return epoch > finished - params.keep_last_n ||
           std::any_of(state.best_epochs.begin(), state.best_epochs.end(),
                       [epoch](const ScoredEpoch& best) { return best.epoch == epoch; });
  };
  if (held(finished)) state.kept_epochs.push_back(finished);
  const bool listed = contains(params.save_ckpt_epoch_list, finished + 1);
  if (listed || held(finished)) plan.copies.push_back(epoch_file(finished));
  std::erase_if(state.kept_epochs, [&](int epoch) {
    if (held(epoch)) return false;
    if (!contains(params.save_ckpt_epoch_list, epoch + 1))
      plan.retired.push_back(epoch_file(epoch));
    return true;
  });
}

void plan_average(const TrainingParams& params, TrainState& state, double watched, FilePlan& plan) {
  const int finished = state.epoch - 1;
  const SlotChange change = offer_epoch(state.averaged, {finished, watched},
                                        params.greater_metric_to_watch_is_better, kMostAveraged);
  if (!change.added) return;
  plan.snapshot = snapshot_file(finished);
  for (const ScoredEpoch& slot : state.averaged) plan.averaged.push_back(snapshot_file(slot.epoch));
  if (change.dropped) plan.retired.push_back(snapshot_file(*change.dropped));
}

/// What describes the model, without what only a resume needs.
Value description_of(const Value& sgtrain) {
  Value out = Value::dict();
  for (const char* key :
       {"architecture", "arch_params", "num_classes", "class_names", "recipe", "precision"}) {
    if (const Value* value = sgtrain.find(key)) out.set(key, *value);
  }
  return out;
}

std::optional<int> epoch_of(const fs::path& file) {
  try {
    return static_cast<int>(tensor::Checkpoint::read(file).epoch);
  } catch (const core::Error& error) {
    core::log::warning("{} cannot be used: {}", file.string(), error.what());
    return std::nullopt;
  }
}

}  // namespace

FilePlan plan_files(const TrainingParams& params, TrainState& state,
                    std::optional<double> watched) {
  FilePlan plan;
  if (state.has_best && state.best_epoch == state.epoch - 1)
    plan.copies.push_back(params.ckpt_best_name);
  plan_kept(params, state, watched, plan);
  if (params.average_best_models && watched) plan_average(params, state, *watched, plan);
  state.retired = plan.retired;
  return plan;
}

CheckpointFiles::CheckpointFiles(fs::path dir, const TrainingParams& params)
    : dir_(std::move(dir)),
      most_files_(3 + params.save_ckpt_epoch_list.size() +
                  static_cast<std::size_t>(params.keep_last_n + params.keep_best_k)),
      averages_(params.average_best_models) {}

void CheckpointFiles::write(const Value& content, const FilePlan& plan) {
  const bool written = write_file(kFresh, content);
  for (const std::string& name : plan.copies) {
    if (written)
      copy_fresh(name);
    else
      write_file(name, content);
  }
  bool averages = !plan.averaged.empty();
  if (plan.snapshot) {
    const Value* ema = content.find("ema_net");
    averages =
        write_file(*plan.snapshot, Value::dict({{"net", ema != nullptr ? *ema : content["net"]}}));
  }
  if (averages) write_average(content, plan.averaged);
  retired_.insert(retired_.end(), plan.retired.begin(), plan.retired.end());
  if (!written) return;
  keep_previous();
  std::error_code error;
  fs::rename(dir_ / kFresh, dir_ / kLatest, error);
  if (error) {
    core::log::warning("{} was not written, training goes on: {}", kLatest, error.message());
    return;
  }
  latest_is_good_ = true;
  for (const std::string& name : retired_) fs::remove(dir_ / name, error);
  retired_.clear();
  report_size();
}

/// A file of its own, so that nobody who changes one in place changes what a resume needs.
void CheckpointFiles::copy_fresh(const std::string& name) {
  try {
    core::copy_file_atomically(dir_ / kFresh, dir_ / name);
  } catch (const std::exception& error) {
    core::log::warning("{} was not written, training goes on: {}", name, error.what());
  }
}

bool CheckpointFiles::write_file(const std::string& name, const Value& content) {
  try {
    tensor::write_pth(dir_ / name, content);
    return true;
  } catch (const std::exception& error) {
    core::log::warning("{} was not written, training goes on: {}", name == kFresh ? kLatest : name,
                       error.what());
    return false;
  }
}

void CheckpointFiles::write_average(const Value& content,
                                    const std::vector<std::string>& snapshots) {
  std::vector<fs::path> files;
  for (const std::string& name : snapshots) {
    std::error_code ignored;  // of a run that went on after its end, or lost to a full disk
    if (fs::exists(dir_ / name, ignored)) files.push_back(dir_ / name);
  }
  try {
    Value average = Value::dict();
    average.set("net", tensor::from_state_dict(average_weights(files)));
    for (const auto& [key, value] : content.pairs()) {
      const std::string& name = key.as_string();
      if (name == "sgtrain") {
        average.set(name, description_of(value));
      } else if (name != "net" && name != "ema_net" && name != "optimizer_state_dict" &&
                 name != "scaler_state_dict") {
        average.set(name, value);
      }
    }
    write_file(kAverage, average);
  } catch (const std::exception& error) {
    core::log::warning("{} was not made, training goes on: {}", kAverage, error.what());
  }
}

/// A second name for the file that is about to lose its first one; they are never two names for
/// long. File systems without links go without.
void CheckpointFiles::keep_previous() {
  if (!latest_is_good_) return;
  std::error_code error;
  const fs::path fresh = dir_ / (std::string(".") + kPrevious + ".link");
  fs::remove(fresh, error);
  fs::create_hard_link(dir_ / kLatest, fresh, error);
  if (!error) fs::rename(fresh, dir_ / kPrevious, error);
  fs::remove(fresh, error);  // two names of one file are not renamed
}

void CheckpointFiles::resumed_from(const fs::path& file, const std::vector<std::string>& retired) {
  std::error_code error;
  latest_is_good_ = fs::equivalent(file, dir_ / kLatest, error);
  for (const std::string& name : retired) fs::remove(dir_ / name, error);
}

void CheckpointFiles::remove_snapshots() {
  std::error_code ignored;
  fs::remove_all(dir_ / kSnapshots, ignored);
}

void CheckpointFiles::report_size() {
  if (reported_) return;
  reported_ = true;
  std::error_code error;
  const std::uint64_t size = fs::file_size(dir_ / kLatest, error);
  if (error) return;
  const std::uint64_t most = size * most_files_ + (averages_ ? size * (kMostAveraged + 1) / 2 : 0);
  const std::uint64_t free = core::free_space(dir_);
  const std::string text =
      fmt::format("a checkpoint takes {}; this run keeps up to {}, {} are free",
                  core::human_bytes(size), core::human_bytes(most), core::human_bytes(free));
  if (free < most) {
    core::log::warning(
        "{}: the disk may become full (keep_last_n, keep_best_k, "
        "average_best_models and save_ckpt_epoch_list decide)",
        text);
  } else {
    core::log::info("{}", text);
  }
}

fs::path newest_readable(const fs::path& dir, const std::string& name) {
  std::error_code error;
  for (const std::string& candidate : {name, std::string(kPrevious)}) {
    if (!fs::exists(dir / candidate, error) || !epoch_of(dir / candidate)) continue;
    if (candidate != name) core::log::warning("going on from {} instead", candidate);
    return dir / candidate;
  }
  fs::path best;
  int furthest = -1;
  for (const auto& entry : fs::directory_iterator(dir, error)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with("ckpt_") || !file.ends_with(".pth") || file == name || file == kPrevious)
      continue;
    const auto epoch = epoch_of(entry.path());
    if (!epoch || *epoch <= furthest) continue;
    furthest = *epoch;
    best = entry.path();
  }
  if (best.empty()) {
    throw core::InputError("this run has no checkpoint that can be read", dir.string(),
                           "start again without resume");
  }
  core::log::warning("going on from {} (after epoch {}) instead", best.filename().string(),
                     furthest);
  return best;
}

}  // namespace sgtrain::train
