// Every training parameter of the reference is known, explained and has the default of the file
// that recipes start from.
#include "train/training_params.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "recipe/recipe.h"

using namespace sgtrain;

namespace {

const char* const kReferenceKeys[] = {"max_epochs",
                                      "initial_lr",
                                      "lr_mode",
                                      "lr_schedule_function",
                                      "lr_updates",
                                      "step_lr_update_freq",
                                      "lr_decay_factor",
                                      "cosine_final_lr_ratio",
                                      "lr_warmup_epochs",
                                      "lr_warmup_steps",
                                      "warmup_mode",
                                      "warmup_initial_lr",
                                      "lr_cooldown_epochs",
                                      "multiply_head_lr",
                                      "finetune",
                                      "optimizer",
                                      "optimizer_params",
                                      "zero_weight_decay_on_bias_and_bn",
                                      "load_opt_params",
                                      "batch_accumulate",
                                      "clip_grad_norm",
                                      "mixed_precision",
                                      "sync_bn",
                                      "precise_bn",
                                      "precise_bn_batch_size",
                                      "ema",
                                      "ema_params",
                                      "average_best_models",
                                      "torch_compile",
                                      "torch_compile_loss",
                                      "torch_compile_options",
                                      "enable_qat",
                                      "seed",
                                      "loss",
                                      "criterion_params",
                                      "train_metrics_list",
                                      "valid_metrics_list",
                                      "metric_to_watch",
                                      "greater_metric_to_watch_is_better",
                                      "pre_prediction_callback",
                                      "phase_callbacks",
                                      "run_validation_freq",
                                      "run_test_freq",
                                      "max_train_batches",
                                      "max_valid_batches",
                                      "save_model",
                                      "ckpt_name",
                                      "ckpt_best_name",
                                      "save_ckpt_epoch_list",
                                      "resume",
                                      "run_id",
                                      "resume_path",
                                      "resume_from_remote_sg_logger",
                                      "resume_strict_load",
                                      "sg_logger",
                                      "sg_logger_params",
                                      "launch_tensorboard",
                                      "tensorboard_port",
                                      "tb_files_user_prompt",
                                      "save_tensorboard_to_s3",
                                      "silent_mode",
                                      "log_installed_packages",
                                      "dataset_statistics",
                                      "kill_ddp_pgroup_on_end"};

}  // namespace

TEST_CASE("every training parameter is listed with its meaning", "[train]") {
  const auto docs = train::describe_training_params();
  for (const char* key : kReferenceKeys) {
    INFO(key);
    const auto found =
        std::find_if(docs.begin(), docs.end(), [&](const auto& doc) { return doc.key == key; });
    CHECK(found != docs.end());
  }
  for (const core::KeyDoc& doc : docs) {
    INFO(doc.key);
    CHECK_FALSE(doc.help.empty());
    CHECK_FALSE(doc.type.empty());
    CHECK((doc.required || !doc.default_value.empty()));
  }
}

TEST_CASE("the file of defaults says what the program does without it", "[train]") {
  const auto recipe = recipe::load(
      {.recipe = SGTRAIN_SOURCE_DIR "/recipes/training_hyperparams/default_train_params.yaml",
       .config_dirs = {},
       .overrides = {}});
  int compared = 0;
  for (const core::KeyDoc& doc : train::describe_training_params()) {
    const auto value = recipe.tree->find(doc.key);
    if (!value || doc.required || doc.type == "any") continue;  // any: without effect
    INFO(doc.key);
    using Kind = core::Tree::Kind;
    if (value->kind == Kind::kBool) CHECK(doc.default_value == (value->boolean ? "true" : "false"));
    if (value->kind == Kind::kInt) CHECK(doc.default_value == std::to_string(value->integer));
    if (value->kind == Kind::kString) CHECK(doc.default_value == "'" + value->text + "'");
    if (value->kind == Kind::kBool || value->kind == Kind::kInt || value->kind == Kind::kString)
      ++compared;
  }
  CHECK(compared > 20);
}
