#include "train/training_params.h"

#include <algorithm>

#include "core/text.h"
#include "train/metric_name.h"
#include "train/parse_at.h"
#include "train/watcher.h"

namespace sgtrain::train {
namespace {

/// Keys of the reference that have no effect here: accepted, with one note when the value is not
/// the reference's default. True for a key that `asks` for something that does not exist is an
/// error.
struct InertKey {
  const char* key;
  const char* type;
  const char* fallback;  // the reference's default
  const char* why;
  bool asks = false;
};
constexpr InertKey kInertKeys[] = {
    {"save_tensorboard_to_s3", "boolean", "false", "no S3 upload", true},
    {"tb_files_user_prompt", "boolean", "false", "event files are never deleted"},
    {"launch_tensorboard", "boolean", "false", "start tensorboard yourself on the run folder"},
    {"tensorboard_port", "integer", "null", "start tensorboard yourself on the run folder"},
    {"log_installed_packages", "boolean", "true", "there are no Python packages"},
    {"dataset_statistics", "boolean", "false", "see the data report at start"},
    {"kill_ddp_pgroup_on_end", "boolean", "true", "the process group always ends with the run"},
    {"torch_compile", "boolean", "false", "models run fused kernels already"},
    {"torch_compile_loss", "boolean", "false", "models run fused kernels already"},
    {"torch_compile_options", "map", "{}", "models run fused kernels already"},
    {"enable_qat", "boolean", "false", "quantisation is not part of training", true},
    {"multiply_head_lr", "number", "null", "use a map under initial_lr"},
    {"resume_from_remote_sg_logger", "boolean", "false", "give resume_path", true},
    {"_convert_", "text", "null", "values are plain already"},
};

/// Callbacks of the reference for what does not exist here.
constexpr std::pair<const char*, const char*> kAbsentCallbacks[] = {
    {"YoloXTrainingStageSwitchCallback",
     "it switches on the L1 term of YoloX's loss, and there is no YoloX here; close_mosaic: N ends "
     "mosaic and mixup for the last N epochs"},
    {"DEKRVisualizationCallback", "there are no pose networks here"},
    {"ExtremeBatchPoseEstimationVisualizationCallback", "there are no pose networks here"},
    {"ExtremeBatchSegVisualizationCallback", "there are no segmentation networks here"},
    {"SlidingWindowValidationCallback", "there are no segmentation networks here"},
    {"RoboflowResultCallback", "results.csv and metrics.json of the run folder hold the results"},
    {"ModelConversionCheckCallback", "models are not converted during training"},
    {"DeciLabUploadCallback", "the service it uploads to no longer exists"},
};

void read_inert(core::Node& node) {
  for (const InertKey& inert : kInertKeys) {
    if (!node.has(inert.key)) continue;
    core::Node value = node.child(inert.key);
    value.read_all();
    const bool on = value.kind() == core::Tree::Kind::kBool && value.tree()->boolean;
    if (inert.asks && on) {
      node.problem(inert.key, std::string("is not available: ") + inert.why);
      continue;
    }
    const bool plain = value.kind() == core::Tree::Kind::kBool
                           ? (on ? "true" : "false") == std::string_view(inert.fallback)
                           : value.is_map() || std::string_view(inert.type) == "text";
    if (plain) continue;
    node.problems()->note(value.where() + ": " + inert.key + " has no effect here (" + inert.why +
                          ")");
  }
}

std::map<std::string, double> read_initial_lr(core::Node& node) {
  std::map<std::string, double> rates;
  if (!node.has("initial_lr")) {
    node.get<double>("initial_lr");  // documents the key and reports it as missing
    return {{"default", 0.0}};
  }
  core::Node value = node.child("initial_lr");
  if (!value.is_map()) return {{"default", node.get<double>("initial_lr").min(0.0)}};
  for (const std::string& prefix : value.keys()) rates[prefix] = value.get<double>(prefix).min(0.0);
  if (!rates.contains("default"))
    value.problem("needs an entry 'default' for all other parameters");
  return rates;
}

std::string read_precision(core::Node& node) {
  const bool mixed = node.get_or("mixed_precision", false);
  return node.get_or("precision|amp", mixed ? "auto" : "fp32")
      .one_of({"auto", "fp32", "bf16", "fp16", "fp64"});
}

void read_learning_rate(core::Node& node, TrainingParams& p) {
  p.initial_lr = read_initial_lr(node);
  p.lr_warmup_epochs = node.get_or("lr_warmup_epochs", 0).min(0);
  p.lr_warmup_steps = node.get_or("lr_warmup_steps", 0).min(0);
  p.lr_cooldown_epochs = node.get_or("lr_cooldown_epochs", 0).min(0);
  p.finetune = node.get_or("finetune", false);
  if (node.has("lr_schedule_function")) {
    node.problem("lr_schedule_function", "Python functions cannot run here; choose an lr_mode");
  }
  // Schedules read their keys (cosine_final_lr_ratio, lr_updates, …) from this same map.
  auto mode = node.find_component("lr_mode");
  if (mode && core::fuzzy_key(mode->name) == "functionlrscheduler") {
    node.problem("lr_mode",
                 "Python functions cannot run here; a schedule of your own is a plug-in");
  } else if (mode) {
    if (mode->params.size() == 0) mode->params = node;
    p.schedule = parse_at(node, "lr_mode", *mode, optim::LrSchedule::registry());
  }
  if (p.lr_warmup_epochs > 0 || p.lr_warmup_steps > 0) {
    auto warmup = node.find_component("warmup_mode");
    if (!warmup) warmup = core::Component{.name = "LinearEpochLRWarmup", .params = node};
    if (warmup->params.size() == 0) warmup->params = node;
    p.warmup = parse_at(node, "warmup_mode", *warmup, optim::LrWarmup::registry());
  }
  // Keys of schedules and warm-ups that are not in use still belong to this map.
  for (const char* key : {"warmup_mode", "warmup_initial_lr", "cosine_final_lr_ratio", "lr_updates",
                          "step_lr_update_freq", "lr_decay_factor", "lr_mode"}) {
    if (node.has(key)) node.child(key).read_all();
  }
}

void read_optimisation(core::Node& node, TrainingParams& p) {
  p.optimizer_name = node.get_or("optimizer", "SGD");
  core::Component optimizer{.name = p.optimizer_name, .params = core::Node::empty()};
  optimizer.params = node.has("optimizer_params")
                         ? node.child("optimizer_params")
                         : core::Node(core::Tree::make_map(), node.problems(), "optimizer_params");
  const auto& registry = optim::Optimizer::registry();
  if (registry.find(p.optimizer_name) != nullptr) {
    p.optimizer = registry.parse(optimizer);
  } else {
    node.problem("optimizer", registry.unknown(p.optimizer_name));
    optimizer.params.read_all();  // nobody knows what it would read
  }
  p.zero_weight_decay_on_bias_and_bn = node.get_or("zero_weight_decay_on_bias_and_bn", false);
  p.load_opt_params = node.get_or("load_opt_params", true);
  p.batch_accumulate = node.get_or("batch_accumulate|grad_accum_steps", 1).min(1);
  p.accumulate = node.get_or("accumulate", "sum").one_of({"sum", "mean"});
  if (node.has("clip_grad_norm|clip_grad"))
    p.clip_grad_norm = node.get<double>("clip_grad_norm|clip_grad").above(0.0);
  p.precision = read_precision(node);
  p.sync_bn = node.get_or("sync_bn", false);
  p.precise_bn = node.get_or("precise_bn", false);
  p.precise_bn_batch_size = node.find<int>("precise_bn_batch_size");
  if (p.precise_bn_batch_size && *p.precise_bn_batch_size < 1)
    node.problem("precise_bn_batch_size", "must be at least 1");
  p.ema = node.get_or("ema", false);
  if (node.has("ema_params")) {
    core::Node ema = node.child("ema_params");
    p.ema_params.decay = ema.get_or("decay", p.ema_params.decay).in(0.0, 1.0);
    p.ema_params.decay_type =
        ema.get_or("decay_type", "exp").one_of({"constant", "threshold", "exp"});
    p.ema_params.beta = ema.get_or("beta", p.ema_params.beta).above(0.0);
    if (ema.has("exp_activation")) {  // legacy spelling of the decay type
      p.ema_params.decay_type = ema.get_or("exp_activation", true) ? "exp" : "constant";
    }
  }
  p.average_best_models = node.get_or("average_best_models", true);
  p.max_non_finite_steps = node.get_or("max_non_finite_steps", 10).min(1);
}

/// The names that are watched must be among those that this run will log.
void check_watched(core::Node& node, const TrainingParams& p) {
  std::vector<std::unique_ptr<metrics::Metric>> metrics;
  for (const auto& make : p.valid_metrics) metrics.push_back(make());
  const auto names = logged_names(*p.loss(), metrics);
  if (!find_metric_name(p.metric_to_watch, names))
    node.problem("metric_to_watch", unknown_metric(p.metric_to_watch, names));
  const std::string watched = p.schedule ? p.schedule({})->watches() : "";
  if (!watched.empty() && !find_metric_name(watched, names))
    node.problem("lr_mode", "metric_name: " + unknown_metric(watched, names));
  std::vector<std::unique_ptr<metrics::Metric>> of_training;
  for (const auto& make : p.train_metrics) of_training.push_back(make());
  auto all = logged_names(*p.loss(), of_training);
  all.insert(all.end(), names.begin(), names.end());
  for (const auto& [name, make] : p.callbacks) {
    const auto callback = make();
    const auto* watcher = dynamic_cast<const Watcher*>(callback.get());
    if (watcher != nullptr && !watcher->watches().empty() &&
        !find_metric_name(watcher->watches(), all))
      node.problem("phase_callbacks", name + ": " + unknown_metric(watcher->watches(), all));
  }
}

void read_selection(core::Node& node, TrainingParams& p) {
  const std::size_t before = node.problems()->items().size();
  core::Component loss = node.component("loss");
  if (node.has("criterion_params")) {
    core::Node params = node.child("criterion_params");
    const bool known = losses::Loss::registry().find(loss.name) != nullptr;
    if (!known) {
      params.read_all();  // reported below
    } else if (loss.params.size() == 0 && params.size() > 0) {
      loss.params = params;
    } else if (params.size() > 0) {
      params.problem("does not act, since the loss has parameters of its own (" +
                     loss.params.where() + "): keep one of them; ~" + params.path() +
                     " drops these");
      params.read_all();
    }
  }
  p.loss = parse_at(node, "loss", loss, losses::Loss::registry());
  for (const auto& metric : node.components("train_metrics_list")) {
    p.train_metrics.push_back(metrics::Metric::registry().parse(metric));
  }
  for (const auto& metric : node.components("valid_metrics_list")) {
    p.valid_metrics.push_back(metrics::Metric::registry().parse(metric));
  }
  p.metric_to_watch = node.get_or("metric_to_watch", p.metric_to_watch.c_str());
  p.greater_metric_to_watch_is_better = node.get_or("greater_metric_to_watch_is_better", true);
  auto callbacks = node.components("phase_callbacks");
  if (auto before = node.find_component("pre_prediction_callback")) callbacks.push_back(*before);
  for (const auto& callback : callbacks) {
    const auto absent = std::find_if(
        std::begin(kAbsentCallbacks), std::end(kAbsentCallbacks), [&](const auto& entry) {
          return core::fuzzy_key(entry.first) == core::fuzzy_key(callback.name);
        });
    if (absent != std::end(kAbsentCallbacks)) {
      node.problem("phase_callbacks", callback.name + " is not available: " + absent->second);
      core::Node(callback.params).read_all();
      continue;
    }
    p.callbacks.emplace_back(core::fuzzy_key(callback.name), Callback::registry().parse(callback));
  }
  if (!node.describing() && node.problems()->items().size() == before) check_watched(node, p);
}

void read_checkpoints(core::Node& node, TrainingParams& p) {
  p.save_model = node.get_or("save_model", true);
  p.ckpt_name = node.get_or("ckpt_name", p.ckpt_name.c_str());
  p.ckpt_best_name = node.get_or("ckpt_best_name", p.ckpt_best_name.c_str());
  p.save_ckpt_epoch_list = node.get_or("save_ckpt_epoch_list", std::vector<int>{}).min(1);
  p.keep_last_n = node.get_or("keep_last_n", 0).min(0);
  p.keep_best_k = node.get_or("keep_best_k", 0).min(0);
  p.save_every_minutes = node.find<double>("save_every_minutes");
  if (p.save_every_minutes && !(*p.save_every_minutes > 0.0))
    node.problem("save_every_minutes", "must be above 0");
  p.resume = node.get_or("resume", false);
  p.run_id = node.find<std::string>("run_id");
  p.resume_path = node.find<std::string>("resume_path");
  p.resume_strict_load = node.get_or("resume_strict_load", false);
}

}  // namespace

TrainingParams TrainingParams::from(core::Node& node) {
  TrainingParams p;
  p.max_epochs = node.get<int>("max_epochs").min(1);
  p.max_train_batches = node.find<int>("max_train_batches");
  p.max_valid_batches = node.find<int>("max_valid_batches");
  if (p.max_train_batches.value_or(1) < 1) node.problem("max_train_batches", "must be at least 1");
  if (p.max_valid_batches.value_or(1) < 1) node.problem("max_valid_batches", "must be at least 1");
  p.run_validation_freq = node.get_or("run_validation_freq", 1).min(1);
  p.run_test_freq = node.get_or("run_test_freq", 1).min(1);
  p.seed = node.get_or("seed", std::int64_t{42});
  p.deterministic = node.get_or("deterministic", false);
  read_learning_rate(node, p);
  read_optimisation(node, p);
  read_selection(node, p);
  read_checkpoints(node, p);
  core::Node logger_params =
      node.has("sg_logger_params")
          ? node.child("sg_logger_params")
          : core::Node(core::Tree::make_map(), node.problems(), "sg_logger_params");
  const std::string logger = node.get_or("sg_logger", "base_sg_logger");
  p.logger = loggers::Logger::registry().parse({.name = logger, .params = logger_params});
  p.silent_mode = node.get_or("silent_mode", false);
  read_inert(node);
  return p;
}

std::vector<core::KeyDoc> inert_training_params() {
  std::vector<core::KeyDoc> out;
  for (const InertKey& inert : kInertKeys)
    out.push_back({.key = inert.key,
                   .type = inert.type,
                   .default_value = inert.fallback,
                   .bounds = {},
                   .help = std::string("accepted, without effect: ") + inert.why});
  return out;
}

}  // namespace sgtrain::train
