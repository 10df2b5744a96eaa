#include "optim/torch_schedule.h"

#include <map>
#include <string>

#include "core/text.h"

namespace sgtrain::optim {
namespace {

const std::map<std::string, TorchPhase>& phases() {
  static const std::map<std::string, TorchPhase> all{
      {"TRAIN_EPOCH_START", TorchPhase::kEpochStart},
      {"TRAIN_BATCH_END", TorchPhase::kBatch},
      {"TRAIN_BATCH_STEP", TorchPhase::kOptimizerStep},
      {"TRAIN_EPOCH_END", TorchPhase::kEpochEnd},
      {"VALIDATION_EPOCH_END", TorchPhase::kValidationEnd},
      {"VALIDATION_END_BEST_EPOCH", TorchPhase::kBestEpoch},
      {"TEST_END", TorchPhase::kTestEnd}};
  return all;
}

}  // namespace

TorchPhase read_phase(core::Node& node, const char* fallback) {
  std::vector<std::string> names;
  for (const auto& [name, phase] : phases()) names.push_back(name);
  const std::string name = node.get_or("phase", fallback).one_of(names).value();
  const auto found = phases().find(name);
  return found == phases().end() ? TorchPhase::kEpochEnd : found->second;  // reported
}

bool CountingSchedule::is_phase(const Position& position) const {
  switch (phase_) {
    case TorchPhase::kEpochStart:
      return position.epoch_start;
    case TorchPhase::kBatch:
      return position.loss_end;
    case TorchPhase::kOptimizerStep:
      return position.stepped;
    case TorchPhase::kEpochEnd:
      return position.epoch_end;
    case TorchPhase::kValidationEnd:
      return position.validation_end;
    case TorchPhase::kBestEpoch:
      return position.best_epoch;
    case TorchPhase::kTestEnd:
      return position.test_end;
  }
  return false;
}

void CountingSchedule::step(const Position& position) {
  starts_now_ = position.epoch == 0 && position.epoch_start && warmup_epochs_ == 0 && steps_ == 0;
  steps_now_ = position.epoch >= warmup_epochs_ && is_phase(position);
  if (!steps_now_) return;
  ++steps_;
  on_step(position);
}

tensor::Value CountingSchedule::save() const {
  tensor::Value out = tensor::Value::dict();
  out.set("last_epoch", steps_);
  out.set("_step_count", steps_ + 1);
  return out;
}

void CountingSchedule::load(const tensor::Value& state) {
  if (const tensor::Value* steps = state.find("last_epoch")) steps_ = steps->as_int();
}

std::optional<double> TorchSchedule::at(const Position& position, const ParamGroup& group) {
  static_cast<void>(position);
  if (!steps_now() && !starts_now()) return std::nullopt;
  return rate(steps(), group);
}

}  // namespace sgtrain::optim
