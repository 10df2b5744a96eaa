// Callbacks look at the run at fixed moments and answer with requests; only the trainer acts.
// Moments and order are SuperGradients':
//
//   on_training_start                                        PRE_TRAINING
//    per epoch: on_train_loader_start                        TRAIN_EPOCH_START
//     per batch: before_forward (pre-prediction), on_train_batch_start
//      forward, loss; on_train_batch_loss_end                TRAIN_BATCH_END
//      backward; on_train_batch_backward_end
//      every batch_accumulate batches: on_train_batch_gradient_step_start, optimizer, EMA,
//                     on_train_batch_gradient_step_end       TRAIN_BATCH_STEP
//      on_train_batch_end
//     on_train_loader_end                                    TRAIN_EPOCH_END
//    validation: on_validation_loader_start, per batch on_validation_batch_start and
//                     on_validation_batch_end                VALIDATION_BATCH_END
//     on_validation_loader_end                               VALIDATION_EPOCH_END
//    test sets, each: on_test_loader_start, on_test_batch_start and
//                     on_test_batch_end                      TEST_BATCH_END
//     on_test_loader_end                                     TEST_END
//    on_validation_end_best_epoch                            VALIDATION_END_BEST_EPOCH
//   on_average_best_models_validation_start, …_end           AVERAGE_BEST_MODELS_VALIDATION_…
//   on_training_end                                          POST_TRAINING
//
// A run that goes on within an epoch begins with on_training_start and on_train_loader_start.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/registry.h"
#include "losses/loss.h"
#include "tensor/batch.h"
#include "train/resumable.h"
#include "train/state.h"

namespace sgtrain::models {
class Model;
}

namespace sgtrain::train {

struct Run;

/// What a callback wants from the trainer.
struct Requests {
  std::optional<std::string> stop_training;  // the reason
};

/// What a callback may see. Pointers are null outside of the moments they belong to.
struct PhaseContext {
  const TrainState& state;
  models::Model& model;
  losses::Loss& loss;
  /// Values of the last training and validation epoch by logged name.
  const NamedValues& metrics;
  /// All else of the run: optimizer, EMA, loaders, metrics, parameters, logger, folder. Null in
  /// tests of callbacks that do not need it.
  Run* run = nullptr;
  int batch_index = 0;                          // within the epoch, validation or test
  const tensor::Batch* batch = nullptr;         // during a batch: images as bytes
  const tensor::Targets* targets = nullptr;     // from on_train_batch_loss_end on, on the device
  const tensor::ModelOutput* output = nullptr;  // likewise, without graph
  const std::vector<double>* losses = nullptr;  // likewise: components of this batch
  const std::string* test_set = nullptr;        // name, during tests
  std::string_view watched{};                   // logged name of metric_to_watch
  bool is_main = true;                          // rank 0

  std::optional<double> metric(std::string_view name) const;
};

class Callback : public Resumable {
 public:
  using Registry = core::Registry<Callback>;
  static Registry& registry();

  /// May exchange what the network gets: float [B,C,H,W] on the device, and targets in its pixels.
  /// Equal on every rank where it changes the size.
  virtual void before_forward(at::Tensor& images, tensor::Targets& targets, PhaseContext&) {
    static_cast<void>(images);
    static_cast<void>(targets);
  }
  virtual Requests on_training_start(PhaseContext&) { return {}; }
  virtual Requests on_train_loader_start(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_start(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_loss_end(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_backward_end(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_gradient_step_start(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_gradient_step_end(PhaseContext&) { return {}; }
  virtual Requests on_train_batch_end(PhaseContext&) { return {}; }
  virtual Requests on_train_loader_end(PhaseContext&) { return {}; }
  virtual Requests on_validation_loader_start(PhaseContext&) { return {}; }
  virtual Requests on_validation_batch_start(PhaseContext&) { return {}; }
  virtual Requests on_validation_batch_end(PhaseContext&) { return {}; }
  virtual Requests on_validation_loader_end(PhaseContext&) { return {}; }
  virtual Requests on_test_loader_start(PhaseContext&) { return {}; }
  virtual Requests on_test_batch_start(PhaseContext&) { return {}; }
  virtual Requests on_test_batch_end(PhaseContext&) { return {}; }
  virtual Requests on_test_loader_end(PhaseContext&) { return {}; }
  virtual Requests on_validation_end_best_epoch(PhaseContext&) { return {}; }
  virtual Requests on_average_best_models_validation_start(PhaseContext&) { return {}; }
  virtual Requests on_average_best_models_validation_end(PhaseContext&) { return {}; }
  virtual Requests on_training_end(PhaseContext&) { return {}; }
};

/// SuperGradients' Phase: moments with a name that recipes use (`phase: TRAIN_EPOCH_END`).
enum class Phase {
  kPreTraining,
  kTrainEpochStart,
  kTrainBatchEnd,
  kTrainBatchStep,
  kTrainEpochEnd,
  kValidationBatchEnd,
  kValidationEpochEnd,
  kValidationEndBestEpoch,
  kTestBatchEnd,
  kTestEnd,
  kAverageBestModelsValidationStart,
  kAverageBestModelsValidationEnd,
  kPostTraining,
};
/// "TRAIN_EPOCH_END"
const char* phase_name(Phase phase);
/// `phase` of a callback's parameters; "Phase.TRAIN_EPOCH_END" is the same.
Phase read_phase(core::Node& node, std::optional<Phase> fallback = {});

/// A callback of one phase.
class PhaseCallback : public Callback {
 public:
  explicit PhaseCallback(Phase phase) : phase_(phase) {}
  virtual Requests call(PhaseContext& context) = 0;

  Requests on_training_start(PhaseContext& c) final { return at(Phase::kPreTraining, c); }
  Requests on_train_loader_start(PhaseContext& c) final { return at(Phase::kTrainEpochStart, c); }
  Requests on_train_batch_loss_end(PhaseContext& c) final { return at(Phase::kTrainBatchEnd, c); }
  Requests on_train_batch_gradient_step_end(PhaseContext& c) final {
    return at(Phase::kTrainBatchStep, c);
  }
  Requests on_train_loader_end(PhaseContext& c) final { return at(Phase::kTrainEpochEnd, c); }
  Requests on_validation_batch_end(PhaseContext& c) final {
    return at(Phase::kValidationBatchEnd, c);
  }
  Requests on_validation_loader_end(PhaseContext& c) final {
    return at(Phase::kValidationEpochEnd, c);
  }
  Requests on_validation_end_best_epoch(PhaseContext& c) final {
    return at(Phase::kValidationEndBestEpoch, c);
  }
  Requests on_test_batch_end(PhaseContext& c) final { return at(Phase::kTestBatchEnd, c); }
  Requests on_test_loader_end(PhaseContext& c) final { return at(Phase::kTestEnd, c); }
  Requests on_average_best_models_validation_start(PhaseContext& c) final {
    return at(Phase::kAverageBestModelsValidationStart, c);
  }
  Requests on_average_best_models_validation_end(PhaseContext& c) final {
    return at(Phase::kAverageBestModelsValidationEnd, c);
  }
  Requests on_training_end(PhaseContext& c) final { return at(Phase::kPostTraining, c); }

 protected:
  Phase phase() const { return phase_; }

 private:
  Requests at(Phase phase, PhaseContext& context) {
    return phase == phase_ ? call(context) : Requests{};
  }
  Phase phase_;
};

}  // namespace sgtrain::train
