// `training_hyperparams`: every key of SuperGradients' training parameters and ours, with the
// default written once. Meanings: reference names keep the reference's meaning; ours are marked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/node.h"
#include "loggers/logger.h"
#include "losses/loss.h"
#include "metrics/metric.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/accumulation.h"
#include "train/callback.h"

namespace sgtrain::train {

struct EmaParams {
  double decay = 0.9999;
  std::string decay_type = "exp";  // constant, threshold, exp
  double beta = 15.0;
};

struct TrainingParams {
  // length and order
  int max_epochs = 1;
  std::optional<int> max_train_batches, max_valid_batches;
  int run_validation_freq = 1;  // epochs
  int run_test_freq = 1;
  std::int64_t seed = 42;
  bool deterministic = false;  // ours: bit-equal runs on a GPU too

  // learning rate: of the groups, by parameter-name prefix ("default" is always there)
  std::map<std::string, double> initial_lr;
  optim::LrSchedule::Registry::MakerType schedule;  // empty: constant
  optim::LrWarmup::Registry::MakerType warmup;      // empty: none
  int lr_warmup_epochs = 0, lr_warmup_steps = 0, lr_cooldown_epochs = 0;
  bool finetune = false;

  // optimisation
  optim::Optimizer::Registry::MakerType optimizer;
  std::string optimizer_name;
  bool zero_weight_decay_on_bias_and_bn = false;
  bool load_opt_params = true;
  int batch_accumulate = 1;
  std::string accumulate = "sum";  // ours: "mean" equals one big batch; "sum" is the reference's
  std::optional<double> clip_grad_norm;
  std::string precision = "fp32";  // auto, fp32, bf16, fp16; fp64 for exact comparisons
  bool sync_bn = false;
  bool precise_bn = false;                   // batch-norm statistics anew before each validation
  std::optional<int> precise_bn_batch_size;  // images; null: as many batches as processes
  bool ema = false;
  EmaParams ema_params;
  bool average_best_models = true;
  int max_non_finite_steps = 10;  // ours: stop after so many in a row

  // loss, metrics, selection
  losses::Loss::Registry::MakerType loss;
  std::vector<metrics::Metric::Registry::MakerType> train_metrics, valid_metrics;
  std::string metric_to_watch = "Accuracy";
  bool greater_metric_to_watch_is_better = true;
  std::vector<std::pair<std::string, Callback::Registry::MakerType>> callbacks;  // with names

  // checkpoints
  bool save_model = true;
  std::string ckpt_name = "ckpt_latest.pth", ckpt_best_name = "ckpt_best.pth";
  std::vector<int> save_ckpt_epoch_list;
  int keep_last_n = 0, keep_best_k = 0;      // ours: ckpt_epoch_N of these epochs
  std::optional<double> save_every_minutes;  // ours: ckpt_latest within epochs
  bool resume = false;
  std::optional<std::string> run_id, resume_path;
  bool resume_strict_load = false;

  // logging
  loggers::Logger::Registry::MakerType logger;
  bool silent_mode = false;

  Accumulation accumulation() const {
    return {.count = batch_accumulate, .sums = accumulate == "sum"};
  }

  static TrainingParams from(core::Node& node);
};

/// Every key of `training_hyperparams` with type, default, bounds and meaning.
std::vector<core::KeyDoc> describe_training_params();
/// Those of them that are accepted without effect, and why they have none.
std::vector<core::KeyDoc> inert_training_params();

}  // namespace sgtrain::train
