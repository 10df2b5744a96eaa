// Tells the callbacks of a run's moments.
#pragma once

#include <string>
#include <vector>

#include "train/callback.h"
#include "train/evaluator.h"
#include "train/run.h"
#include "train/state.h"

namespace sgtrain::train {

/// What belongs to one moment of a PhaseContext.
struct Event {
  int batch_index = 0;
  const tensor::Batch* batch = nullptr;
  const tensor::Targets* targets = nullptr;
  const tensor::ModelOutput* output = nullptr;
  const std::vector<double>* losses = nullptr;
  const std::string* test_set = nullptr;
};

/// Values of the last training and validation epoch, by logged name.
NamedValues metric_values(const TrainState& state);

/// Refers to everything it is given.
class Phases {
 public:
  using Moment = Requests (Callback::*)(PhaseContext&);

  Phases(Run& run, TrainState& state, const std::string& watched)
      : run_(run), state_(state), watched_(watched) {}

  /// In the recipe's order; a request to stop goes into the state.
  void notify(Moment moment, const Event& event = {});
  void before_forward(at::Tensor& images, tensor::Targets& targets, const Event& event);
  /// For an evaluation: `start` and `end` of each batch.
  EvaluationHooks hooks(Moment start, Moment end, const std::string* test_set = nullptr);

 private:
  PhaseContext context(const NamedValues& metrics, const Event& event);

  Run& run_;
  TrainState& state_;
  const std::string& watched_;
};

}  // namespace sgtrain::train
