// Callbacks look at the run at fixed moments and answer with requests; only the trainer acts.
// Moments and order: SuperGradients' (reference: on_training_start … on_training_end).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "losses/loss.h"
#include "tensor/batch.h"
#include "train/state.h"

namespace sgtrain::models {
class Model;
}

namespace sgtrain::train {

/// What a callback wants from the trainer.
struct Requests {
  std::optional<std::string> stop_training;  // the reason
};

/// What a callback may see.
struct PhaseContext {
  const TrainState& state;
  models::Model& model;
  losses::Loss& loss;
  /// Values of the last training or validation epoch by logged name.
  const std::vector<std::pair<std::string, double>>& metrics;
  const tensor::Batch* batch = nullptr;  // during a batch
  const tensor::ModelOutput* output = nullptr;
  bool is_main = true;  // rank 0

  std::optional<double> metric(std::string_view name) const;
};

class Callback {
 public:
  using Registry = core::Registry<Callback>;
  static Registry& registry();

  virtual ~Callback() = default;
  virtual Requests on_training_start(PhaseContext&) { return {}; }
  virtual Requests on_train_loader_start(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_start(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_end(PhaseContext&) { return {}; }
  virtual Requests on_train_loader_end(PhaseContext&) { return {}; }
  virtual Requests on_validation_loader_start(PhaseContext&) { return {}; }
  virtual Requests on_validation_loader_end(PhaseContext&) { return {}; }
  virtual Requests on_validation_end_best_epoch(PhaseContext&) { return {}; }
  virtual Requests on_training_end(PhaseContext&) { return {}; }
};

}  // namespace sgtrain::train
