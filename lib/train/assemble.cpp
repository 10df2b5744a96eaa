#include "train/assemble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "core/log.h"
#include "data/views.h"
#include "dist/launcher.h"
#include "dist/sync.h"
#include "models/build.h"
#include "nn/sync_batch_norm.h"
#include "optim/param_groups.h"
#include "tensor/device.h"
#include "train/metric_name.h"
#include "train/processing_params.h"

namespace sgtrain::train {
namespace {

void build_loss_and_metrics(const RunPlan& plan, Run& run) {
  run.loss = plan.training.loss();
  if (run.loss->needs_teacher() && !plan.distillation) {
    throw core::InputError(run.loss->name() + " needs a teacher, but this run has none",
                           "training_hyperparams.loss",
                           "set architecture: kd_module with student_architecture and "
                           "teacher_architecture");
  }
  for (const auto& make : plan.training.train_metrics) run.train_metrics.push_back(make());
  for (const auto& make : plan.training.valid_metrics) run.valid_metrics.push_back(make());
  const std::vector<std::string> names = logged_names(run);
  resolve_metric_name(plan.training.metric_to_watch, names);
  if (plan.training.schedule) {
    const std::string watched = plan.training.schedule({})->watches();
    if (!watched.empty()) resolve_metric_name(watched, names, "lr_mode.metric_name");
  }
}

/// Bytes of memory that the system can give without swapping.
std::size_t free_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  for (std::size_t kib = 0; file >> word;) {
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::size_t{4} << 30;
}

std::unique_ptr<data::Dataset> build_dataset(const DataPlan& plan, const RunPlan& run) {
  auto dataset = plan.dataset(data::Paths(run.recipe_dir));
  dist::on_main([&] { core::log::info("{}", dataset->report().text()); });
  if (dataset->size() == 0) {
    throw core::InputError("the " + plan.name + " set has no usable image", dataset->report().title,
                           "see the counts above; `sgtrain check --data` shows them alone");
  }
  const std::string where = "dataset_params." + plan.name;
  data::check_num_classes(*dataset, run.num_classes, where);
  if (!run.class_names.empty()) data::check_class_names(run.class_names, *dataset, where);
  if (plan.name == "train") dataset = data::part_of(std::move(dataset), run.extra.fraction);
  // Half of what is free now: training needs the rest.
  if (run.extra.cache) dataset = data::kept_in_memory(std::move(dataset), free_memory() / 2);
  return dataset;
}

/// The last `epochs` epochs go without mosaic and mixup.
std::unique_ptr<Callback> close_mosaic(int epochs, int max_epochs) {
  const auto params = core::Tree::make_map();
  params->set("next_stage_start_epoch",
              core::Tree::of(static_cast<std::int64_t>(std::max(0, max_epochs - epochs))));
  return Callback::registry().parse(
      {.name = "YoloXTrainingStageSwitchCallback",
       .params = core::Node(params, std::make_shared<core::Problems>())})();
}

/// Learning rates by prefix, 0 for what `freeze` names.
std::map<std::string, double> learning_rates(const RunPlan& plan, models::Model& model) {
  std::map<std::string, double> rates = plan.training.initial_lr;
  for (const std::string& prefix : plan.extra.freeze) rates[prefix] = 0.0;
  int layers = 0;
  for (const auto& parameter : model.named_parameters()) {
    layers += parameter.tensor->dim() >= 2 ? 1 : 0;  // a convolution or a matrix begins a layer
    if (layers > plan.extra.freeze_layers) break;
    if (layers > 0) rates[parameter.name] = 0.0;
  }
  return rates;
}

std::unique_ptr<data::Pipeline> build_pipeline(const DataPlan& plan, const data::Dataset& dataset) {
  return std::make_unique<data::Pipeline>(plan.transforms, dataset.task(),
                                          "dataset_params." + plan.name + ".transforms");
}

std::unique_ptr<loader::Loader> build_loader(const DataPlan& plan, const data::Dataset& dataset,
                                             const data::Pipeline& pipeline,
                                             const RunPlan& run_plan, const Run& run) {
  return std::make_unique<loader::Loader>(
      dataset, pipeline, plan.loader,
      loader::LoaderSetup{.seed = static_cast<std::uint64_t>(run_plan.training.seed),
                          .shard = {.index = run.comm->rank(), .count = run.comm->world_size()},
                          .training = plan.name == "train",
                          .pinned = run.input.device.is_cuda()});
}

void build_data(const RunPlan& plan, Run& run) {
  if (plan.train) run.train_set = build_dataset(*plan.train, plan);
  if (plan.valid) run.valid_set = build_dataset(*plan.valid, plan);
  if (run.train_set && run.valid_set) data::check_same_classes(*run.train_set, *run.valid_set);
  if (plan.train) {
    run.train_pipeline = build_pipeline(*plan.train, *run.train_set);
    run.train_loader = build_loader(*plan.train, *run.train_set, *run.train_pipeline, plan, run);
  }
  if (plan.valid) {
    run.valid_pipeline = build_pipeline(*plan.valid, *run.valid_set);
    run.valid_loader = build_loader(*plan.valid, *run.valid_set, *run.valid_pipeline, plan, run);
  }
  for (const DataPlan& test : plan.tests) {
    TestSet set{.name = test.name,
                .dataset = build_dataset(test, plan),
                .pipeline = nullptr,
                .loader = nullptr};
    set.pipeline = build_pipeline(test, *set.dataset);
    set.loader = build_loader(test, *set.dataset, *set.pipeline, plan, run);
    run.tests.push_back(std::move(set));
  }
  const data::Dataset* named = run.valid_set ? run.valid_set.get() : run.train_set.get();
  if (named == nullptr && !run.tests.empty()) named = run.tests.front().dataset.get();
  run.class_names = plan.class_names;
  if (run.class_names.empty() && named != nullptr) run.class_names = named->class_names();

  const data::Pipeline* any =
      run.train_pipeline ? run.train_pipeline.get() : run.valid_pipeline.get();
  if (any == nullptr && !run.tests.empty()) any = run.tests.front().pipeline.get();
  if (any != nullptr) run.input.normalisation = any->normalisation();
  if (run.train_pipeline && run.valid_pipeline &&
      !(run.valid_pipeline->normalisation() == run.train_pipeline->normalisation())) {
    throw core::InputError("training and validation transforms normalise differently",
                           "dataset_params",
                           "give both lists the same Standardize/Normalize steps");
  }
}

void load_first_weights(const RunPlan& plan, const WeightsPlan& weights,
                        const std::string& architecture, models::Model& model) {
  models::WeightsRequest request{.checkpoint_path = weights.checkpoint_path,
                                 .pretrained_weights = weights.pretrained_weights,
                                 .strict = models::strict_load_from(weights.strict_load),
                                 .backbone_only = weights.load_backbone,
                                 .checkpoint_num_classes = weights.checkpoint_num_classes,
                                 .base_dir = plan.recipe_dir};
  if (!request.checkpoint_path && !request.pretrained_weights) return;
  const std::string report = models::load_weights(model, architecture, request);
  dist::on_main([&] { core::log::info("{}: {}", architecture, report); });
}

void build_model(const RunPlan& plan, Run& run) {
  tensor::seed(static_cast<std::uint64_t>(plan.training.seed));
  run.model = plan.model();
  load_first_weights(plan, plan.weights, plan.architecture, *run.model);
  if (const auto& pair = plan.distillation) {
    auto teacher = pair->teacher();
    load_first_weights(plan, pair->teacher_weights, pair->teacher_architecture, *teacher);
    run.model = models::make_kd_module(std::move(run.model), std::move(teacher), pair->params);
  }
  if (run.precision == at::kDouble) run.model->to(at::kDouble);
  run.model->to(run.input.device);
  run.model->to_channels_last();
  dist::broadcast_state(*run.comm, run.model->state());  // before the average copies it
  if (plan.training.sync_bn) nn::synchronise_batch_norm(*run.model, *run.comm);
}

/// The rule of thumb for larger batches (Goyal et al. 2017).
void scale_learning_rates(const LaunchPlan& plan, Run& run) {
  const double batch =
      static_cast<double>(run.train_loader->params().batch_size) * run.params.batch_accumulate;
  const double ratio =
      batch * run.comm->world_size() / plan.lr_scaling_base_batch.value_or(static_cast<int>(batch));
  run.lr_scaling = {.rule = plan.lr_scaling, .linear = ratio};
  if (plan.lr_scaling == "none") return;
  const double factor = plan.lr_scaling == "sqrt" ? std::sqrt(ratio) : ratio;
  for (auto& [prefix, rate] : run.params.initial_lr) rate *= factor;
}

/// A moving average over more steps than there are stays near where it began.
void warn_of_slow_average(const TrainingParams& p, const optim::RunLength& length) {
  const double steps =
      static_cast<double>(p.max_epochs) * length.batches_per_epoch / p.batch_accumulate;
  const double window = 1.0 / std::max(1.0 - p.ema_params.decay, 1e-12);
  if (p.ema_params.decay_type == "threshold" || window <= steps) return;
  dist::on_main([&] {
    core::log::warning(
        "ema_params.decay {:g} averages over {:.0f} steps, but this run has {:.0f}: the average, "
        "which is what is validated, may lag far behind; ema_params.decay_type: threshold, or a "
        "decay of {:.2g}, follows it",
        p.ema_params.decay, window, steps, std::max(0.0, 1.0 - 10.0 / std::max(steps, 10.0)));
  });
}

void build_optimisation(const RunPlan& plan, Run& run) {
  scale_learning_rates(plan.launch, run);
  const TrainingParams& p = run.params;
  const int batches = static_cast<int>(run.train_loader->batches());
  const auto length =
      run_length(p, p.max_train_batches ? std::min(batches, *p.max_train_batches) : batches);
  run.optimizer = p.optimizer();
  models::Model& trained = run.model->trained();
  if (p.finetune && trained.finetune_prefixes().empty()) {
    throw core::InputError(run.architecture + " does not say which layers fine-tuning trains",
                           "training_hyperparams.finetune",
                           "give initial_lr as a map: 0 freezes the parameters of a prefix");
  }
  run.optimizer->bind(
      optim::param_groups(trained, {.initial_lr = learning_rates(plan, trained),
                                    .no_decay_on_bias_and_norm = p.zero_weight_decay_on_bias_and_bn,
                                    .finetune_prefixes = p.finetune ? trained.finetune_prefixes()
                                                                    : std::vector<std::string>{}}));
  if (p.schedule) run.schedule = p.schedule(length);
  const auto momentum = run.schedule ? run.schedule->momentum() : std::nullopt;
  if (momentum && !run.optimizer->set_momentum(*momentum)) {
    throw core::InputError("lr_mode cycles the momentum, but the optimizer runs without any",
                           "training_hyperparams.optimizer_params",
                           "give it a momentum, or write cycle_momentum: False");
  }
  if (p.warmup) run.warmup = p.warmup(length);
  if (p.ema) {
    run.ema = std::make_unique<optim::Ema>(*run.model,
                                           optim::EmaParams{.decay = p.ema_params.decay,
                                                            .decay_type = p.ema_params.decay_type,
                                                            .beta = p.ema_params.beta},
                                           &trained);
    warn_of_slow_average(p, length);
  }
  if (run.precision == at::kHalf)
    run.scaler = std::make_unique<optim::GradScaler>(run.input.device);
  for (const auto& [name, make] : p.callbacks) run.callbacks.push_back({name, make()});
  if (plan.extra.close_mosaic > 0)
    run.callbacks.push_back({"close_mosaic", close_mosaic(plan.extra.close_mosaic, p.max_epochs)});
}

void build_logger(const RunPlan& plan, Run& run) {
  if (run.dir.empty() || !run.comm->is_main()) {
    run.logger = loggers::make_null();
    return;
  }
  const loggers::RunInfo info{.experiment_name = plan.experiment_name,
                              .project_name = "",
                              .run_dir = run.dir,
                              .resumed = plan.training.resume,
                              .resume_step = 0};
  std::vector<std::unique_ptr<loggers::Logger>> sinks;
  sinks.push_back(plan.training.logger(info));
  run.logger = loggers::make_async(std::move(sinks));
  run.logger->add_config("hyper_params", plan.resolved_recipe);
}

}  // namespace

optim::RunLength run_length(const TrainingParams& params, int batches_per_epoch) {
  return {.max_epochs = params.max_epochs,
          .batches_per_epoch = batches_per_epoch,
          .batch_accumulate = params.batch_accumulate,
          .warmup_epochs = params.lr_warmup_epochs,
          .warmup_steps = params.lr_warmup_steps,
          .cooldown_epochs = params.lr_cooldown_epochs};
}

/// Operations of a GPU that sum in any order are replaced by slower ones that do not; those of the
/// CPU have one order anyway.
static void make_deterministic(at::Device device) {
  if (!device.is_cuda()) return;
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // read with the first product
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

std::unique_ptr<Run> assemble(const RunPlan& plan, Place place) {
  if (plan.training.deterministic) make_deterministic(place.device);
  auto run = std::make_unique<Run>();
  run->experiment_name = plan.experiment_name;
  run->architecture = plan.architecture;
  run->arch_params = plan.arch_params;
  run->resolved_recipe = plan.resolved_recipe;
  run->params = plan.training;
  run->comm = std::move(place.comm);
  run->input.device = place.device;
  run->precision = tensor::resolve_precision(plan.training.precision, place.device);
  if (run->precision == at::kDouble) run->input.dtype = at::kDouble;
  run->check_every = plan.launch.check_every;
  run->reducer.compression = plan.launch.compression == "fp16" ? dist::Reducer::Compression::kFp16
                             : plan.launch.compression == "bf16"
                                 ? dist::Reducer::Compression::kBf16
                                 : dist::Reducer::Compression::kNone;
  build_loss_and_metrics(plan, *run);
  build_data(plan, *run);
  build_model(plan, *run);
  describe_processing(plan, *run);
  if (plan.train) build_optimisation(plan, *run);
  const bool makes_dir = run->comm->is_main() && place.make_run_dir;
  run->dir = run->comm->broadcast(makes_dir ? place.make_run_dir().string() : std::string{});
  build_logger(plan, *run);
  return run;
}

}  // namespace sgtrain::train
