#include "train/phases.h"

namespace sgtrain::train {

NamedValues metric_values(const TrainState& state) {
  NamedValues values = state.train_values;
  values.insert(values.end(), state.valid_values.begin(), state.valid_values.end());
  return values;
}

PhaseContext Phases::context(const NamedValues& metrics, const Event& event) {
  return {.state = state_,
          .model = *run_.model,
          .loss = *run_.loss,
          .metrics = metrics,
          .run = &run_,
          .batch_index = event.batch_index,
          .batch = event.batch,
          .targets = event.targets,
          .output = event.output,
          .losses = event.losses,
          .test_set = event.test_set,
          .watched = watched_,
          .is_main = run_.comm->is_main()};
}

void Phases::notify(Moment moment, const Event& event) {
  if (run_.callbacks.empty()) return;
  const NamedValues metrics = metric_values(state_);
  PhaseContext now = context(metrics, event);
  for (auto& [name, callback] : run_.callbacks) {
    const Requests requests = (callback.get()->*moment)(now);
    if (requests.stop_training) state_.stop_reason = requests.stop_training;
  }
}

void Phases::before_forward(at::Tensor& images, tensor::Targets& targets, const Event& event) {
  if (run_.callbacks.empty()) return;
  const NamedValues metrics = metric_values(state_);
  PhaseContext now = context(metrics, event);
  for (auto& [name, callback] : run_.callbacks) callback->before_forward(images, targets, now);
}

EvaluationHooks Phases::hooks(Moment start, Moment end, const std::string* test_set) {
  if (run_.callbacks.empty()) return {};
  const auto tell = [this, test_set](Moment moment) {
    return [this, moment, test_set](const EvaluatedBatch& seen) {
      notify(moment, {.batch_index = seen.index,
                      .batch = &seen.batch,
                      .targets = seen.targets,
                      .output = seen.output,
                      .losses = seen.losses,
                      .test_set = test_set});
    };
  };
  return {.batch_start = tell(start), .batch_end = tell(end)};
}

}  // namespace sgtrain::train
