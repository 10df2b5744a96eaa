// A run, assembled: everything that training and evaluation work with.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/transform.h"
#include "dist/communicator.h"
#include "dist/reducer.h"
#include "loader/loader.h"
#include "loggers/logger.h"
#include "losses/loss.h"
#include "metrics/metric.h"
#include "models/model.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "tensor/value.h"
#include "train/callback.h"
#include "train/step.h"
#include "train/training_params.h"

namespace sgtrain::train {

using MetricList = std::vector<std::unique_ptr<metrics::Metric>>;

struct TestSet {
  std::string name;
  std::unique_ptr<data::Dataset> dataset;
  std::unique_ptr<data::Pipeline> pipeline;
  std::unique_ptr<loader::Loader> loader;  // refers to the two above
};

/// How learning rates follow the batch size (LaunchPlan::lr_scaling), for the banner.
struct LrScaling {
  std::string rule = "none";
  double linear = 1.0;  // what the linear rule multiplies by
};

/// A callback and the name by which checkpoints find its state again.
struct NamedCallback {
  std::string name;
  std::unique_ptr<Callback> callback;
};

struct Run {
  std::string experiment_name, architecture;
  core::TreePtr arch_params;
  std::string resolved_recipe;  // flat YAML, secrets removed
  std::vector<std::string> class_names;
  tensor::Value processing_params;  // of the validation set, stored in checkpoints
  tensor::Value image_processor;    // the same steps, with what SuperGradients has no words for
  std::filesystem::path dir;        // run folder; empty: nothing is written

  TrainingParams params;
  InputFormat input;
  at::ScalarType precision = at::kFloat;
  dist::Reducer::Options reducer;
  LrScaling lr_scaling;
  int check_every = 0;  // optimizer steps between comparisons of the ranks; 0: never

  std::unique_ptr<dist::Communicator> comm;
  std::unique_ptr<data::Dataset> train_set, valid_set;
  std::unique_ptr<data::Pipeline> train_pipeline, valid_pipeline;
  std::unique_ptr<loader::Loader> train_loader, valid_loader;
  std::vector<TestSet> tests;

  std::unique_ptr<models::Model> model;
  std::unique_ptr<losses::Loss> loss;
  MetricList train_metrics, valid_metrics;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::LrSchedule> schedule;
  std::unique_ptr<optim::LrWarmup> warmup;
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<optim::GradScaler> scaler;  // fp16 only
  std::vector<NamedCallback> callbacks;
  std::unique_ptr<loggers::Logger> logger;
};

}  // namespace sgtrain::train
