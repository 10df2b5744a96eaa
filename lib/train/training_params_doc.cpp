// What each training parameter means, for `sgtrain list training-params`. Types, defaults and
// bounds come from the reads in training_params.cpp; only keys that are read as a whole map or by a
// component carry theirs here.
#include <algorithm>
#include <memory>

#include "train/training_params.h"

namespace sgtrain::train {
namespace {

struct Meaning {
  const char* key;
  const char* text;
  const char* type = nullptr;      // where the read does not say it
  const char* fallback = nullptr;  // of keys that are not read one by one
};

constexpr Meaning kMeanings[] = {
    {"max_epochs", "epochs of the run; a larger number extends a finished one on resume"},
    {"max_train_batches", "end each epoch after so many batches"},
    {"max_valid_batches", "validate on so many batches"},
    {"run_validation_freq", "validate every n epochs (always the last and the listed ones)"},
    {"run_test_freq", "score the test sets every n epochs"},
    {"seed", "weights, order and augmentations depend on it alone"},
    {"deterministic",
     "bit-equal runs on a GPU too (slower algorithms); on the CPU they always are, at no cost"},
    {"initial_lr", "learning rate, or one per parameter-name prefix with 'default'; 0 freezes",
     "number or map", ""},
    {"lr_mode", "schedule: a name, or {Name: {parameters}} of torch's ten"},
    {"lr_warmup_epochs", "epochs of warm-up"},
    {"lr_warmup_steps", "batches of LinearBatchLRWarmup, at most one epoch"},
    {"lr_cooldown_epochs", "last epochs at the final rate"},
    {"warmup_mode", "LinearEpochLRWarmup or LinearBatchLRWarmup", "component",
     "'LinearEpochLRWarmup'"},
    {"warmup_initial_lr", "where the warm-up starts: a number or one per group", "number", "null"},
    {"cosine_final_lr_ratio", "CosineLRScheduler: last rate as a share of the first", "number",
     "0.01"},
    {"lr_updates", "StepLRScheduler: epochs at which the rate falls", "list of integer", "[]"},
    {"step_lr_update_freq", "StepLRScheduler: or every so many epochs (fractions too)", "number",
     "null"},
    {"lr_decay_factor", "StepLRScheduler, ExponentialLRScheduler: factor of a fall", "number",
     "null"},
    {"lr_schedule_function", "an error: Python functions cannot run here", "component", "null"},
    {"finetune", "train the model's fine-tune layers only, the rest is frozen"},
    {"optimizer", "SGD, Adam, AdamW, RMSprop, RMSpropTF, Lamb, Lion"},
    {"optimizer_params", "of the optimizer (`sgtrain list optimizers`)", "map", "{}"},
    {"zero_weight_decay_on_bias_and_bn", "no weight decay on biases and normalisation layers"},
    {"load_opt_params", "restore the optimizer on resume"},
    {"batch_accumulate", "batches per optimizer step; also grad_accum_steps"},
    {"accumulate", "sum of their gradients (as SuperGradients), or mean: equals one large batch"},
    {"clip_grad_norm", "largest L2 norm of all gradients together; also clip_grad", "number",
     "null"},
    {"mixed_precision", "precision auto"},
    {"precision", "of forward and loss; auto: the fastest the device does well"},
    {"sync_bn", "batch statistics over all processes"},
    {"precise_bn", "batch-norm statistics as a mean over batches before each validation"},
    {"precise_bn_batch_size", "images for precise_bn; null: a batch per process, per process"},
    {"ema", "moving average of the weights; it is what is validated and averaged"},
    {"ema_params", "decay 0.9999, decay_type exp (or constant, threshold), beta 15", "map", "{}"},
    {"average_best_models", "average_model.pth: mean of the ten best epochs"},
    {"max_non_finite_steps",
     "stop after so many skipped steps (loss or gradient no number) in a row"},
    {"loss", "name or {Name: {parameters}} (`sgtrain list losses`)"},
    {"criterion_params", "of a loss given by name", "map", "{}"},
    {"train_metrics_list", "metrics of training batches"},
    {"valid_metrics_list", "metrics of validation and test sets"},
    {"metric_to_watch", "the best checkpoint is the best in this value"},
    {"greater_metric_to_watch_is_better", "direction of metric_to_watch"},
    {"phase_callbacks", "`sgtrain list callbacks`"},
    {"pre_prediction_callback", "a callback that exchanges the network's input"},
    {"save_model", "False: no run folder, no files at all"},
    {"ckpt_name", "file that a resume starts from"},
    {"ckpt_best_name", "file of the best epoch"},
    {"save_ckpt_epoch_list", "also keep ckpt_epoch_N.pth of these epochs (1-based)"},
    {"keep_last_n", "keep ckpt_epoch_N.pth of the last n epochs"},
    {"keep_best_k", "keep ckpt_epoch_N.pth of the k best epochs"},
    {"save_every_minutes", "write ckpt_latest.pth within epochs too"},
    {"resume", "go on with the newest run of this experiment"},
    {"run_id", "go on with this run (folder name)"},
    {"resume_path", "go on from this checkpoint, in a new run folder"},
    {"resume_strict_load", "a checkpoint with other weights' names is an error"},
    {"sg_logger", "`sgtrain list loggers`"},
    {"sg_logger_params", "of the logger", "map", "{}"},
    {"silent_mode", "no progress, no epoch summary"},
};

}  // namespace

std::vector<core::KeyDoc> describe_training_params() {
  auto reads = std::make_shared<std::vector<std::unique_ptr<core::KeyDoc>>>();
  core::Node probe = core::Node::describe(reads);
  TrainingParams::from(probe);
  std::vector<core::KeyDoc> out;
  for (const Meaning& meaning : kMeanings) {
    const auto read = std::find_if(reads->begin(), reads->end(),
                                   [&](const auto& doc) { return doc->key == meaning.key; });
    core::KeyDoc doc;
    if (read != reads->end()) {
      doc = **read;
    } else {
      doc.key = meaning.key;
      doc.default_value = meaning.fallback != nullptr ? meaning.fallback : "";
    }
    if (meaning.type != nullptr) doc.type = meaning.type;
    doc.help = meaning.text;
    out.push_back(std::move(doc));
  }
  for (const auto& read : *reads) {  // a key that was forgotten above is shown all the same
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const core::KeyDoc& doc) { return doc.key == read->key; });
    if (!known) out.push_back(*read);
  }
  const auto inert = inert_training_params();
  out.insert(out.end(), inert.begin(), inert.end());
  return out;
}

}  // namespace sgtrain::train
