// Scores a model on a data set: the one path of in-training validation and `sgtrain evaluate`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "loader/loader.h"
#include "losses/loss.h"
#include "metrics/metric.h"
#include "models/model.h"
#include "train/state.h"
#include "train/step.h"

namespace sgtrain::train {

/// One batch of an evaluation, seen from outside.
struct EvaluatedBatch {
  int index = 0;
  const tensor::Batch& batch;
  const tensor::Targets* targets = nullptr;     // at the end, on the device
  const tensor::ModelOutput* output = nullptr;  // at the end
  const std::vector<double>* losses = nullptr;  // at the end: components of this rank's batch
};
struct EvaluationHooks {
  std::function<void(const EvaluatedBatch&)> batch_start, batch_end;
};

class Evaluator {
 public:
  struct Options {
    InputFormat input;
    at::ScalarType precision = at::kFloat;
    std::optional<int> max_batches;
    bool show_progress = true;
    std::string title = "Validating";
  };
  Evaluator(std::vector<std::unique_ptr<metrics::Metric>>& metrics, losses::Loss* loss,
            dist::Communicator& comm, const Options& options)
      : metrics_(metrics), loss_(loss), comm_(comm), options_(options) {}

  /// Loss components (mean over images) and metric values, equal on every rank. The model is left
  /// in the mode it was in. Every image counts once, whatever the number of ranks.
  /// @throws core::Interrupted when a signal asked to stop
  NamedValues run(models::Model& model, loader::Loader& loader, const EvaluationHooks& hooks = {});

 private:
  std::vector<std::unique_ptr<metrics::Metric>>& metrics_;
  losses::Loss* loss_;
  dist::Communicator& comm_;
  Options options_;
};

/// Gathers the states of all ranks into each rank's metric, in order of rank.
void merge_over_ranks(metrics::Metric& metric, dist::Communicator& comm);

}  // namespace sgtrain::train
