#include "train/state_file.h"

namespace sgtrain::train {
namespace {

using tensor::Value;

Value named(const NamedValues& values) {
  Value out = Value::dict();
  for (const auto& [name, value] : values) out.set(name, value);
  return out;
}

NamedValues named_from(const Value* value) {
  NamedValues out;
  if (value == nullptr || !value->is_dict()) return out;
  for (const auto& [name, number] : value->pairs())
    out.emplace_back(name.as_string(), number.as_double());
  return out;
}

Value scored(const std::vector<ScoredEpoch>& epochs) {
  Value out = Value::list();
  for (const ScoredEpoch& e : epochs) out.append(Value::list({e.epoch, e.value}));
  return out;
}

std::vector<ScoredEpoch> scored_from(const Value* value) {
  std::vector<ScoredEpoch> out;
  if (value == nullptr) return out;
  for (const Value& item : value->items())
    out.push_back({static_cast<int>(item.items().at(0).as_int()), item.items().at(1).as_double()});
  return out;
}

template <class T>
Value list_of(const std::vector<T>& values) {
  Value out = Value::list();
  for (const T& value : values) out.append(Value(value));
  return out;
}

/// Reads "key" into `out` where the checkpoint has it.
void read(const Value& v, const char* key, auto& out) {
  const Value* found = v.find(key);
  if (found == nullptr || found->is_none()) return;
  using T = std::remove_reference_t<decltype(out)>;
  if constexpr (std::is_same_v<T, bool>) {
    out = found->as_bool();
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
    out = static_cast<T>(found->as_int());
  } else if constexpr (std::is_same_v<T, double>) {
    out = found->as_double();
  } else if constexpr (std::is_same_v<T, NamedValues>) {
    out = named_from(found);
  } else if constexpr (std::is_same_v<T, std::vector<ScoredEpoch>>) {
    out = scored_from(found);
  } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
    out = found->as_string();
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    for (const Value& item : found->items()) out.push_back(item.as_double());
  } else if constexpr (std::is_same_v<T, std::vector<int>>) {
    for (const Value& item : found->items()) out.push_back(static_cast<int>(item.as_int()));
  } else {
    static_assert(std::is_same_v<T, std::vector<std::string>>);
    for (const Value& item : found->items()) out.push_back(item.as_string());
  }
}

}  // namespace

Value to_value(const TrainState& s) {
  Value v = Value::dict();
  v.set("epoch", s.epoch);
  v.set("batch", s.batch);
  v.set("stage", static_cast<int>(s.stage));
  v.set("global_step", s.global_step);
  v.set("optimizer_steps", s.optimizer_steps);
  v.set("max_epochs", s.max_epochs);
  v.set("has_best", s.has_best);
  v.set("best_metric", s.best_metric);
  v.set("best_epoch", s.best_epoch);
  v.set("stop_reason", s.stop_reason ? Value(*s.stop_reason) : Value());
  v.set("loss_sums", list_of(s.loss_sums));
  v.set("loss_weight", s.loss_weight);
  v.set("images", s.images);
  v.set("train_values", named(s.train_values));
  v.set("valid_values", named(s.valid_values));
  v.set("test_values", named(s.test_values));
  v.set("valid_epoch", s.valid_epoch);
  v.set("test_epoch", s.test_epoch);
  v.set("non_finite_in_a_row", s.non_finite_in_a_row);
  v.set("averaged", scored(s.averaged));
  v.set("best_epochs", scored(s.best_epochs));
  v.set("kept_epochs", list_of(s.kept_epochs));
  v.set("retired", list_of(s.retired));
  return v;
}

TrainState state_from(const Value& v) {
  TrainState s;
  read(v, "epoch", s.epoch);
  read(v, "batch", s.batch);
  read(v, "stage", s.stage);
  read(v, "global_step", s.global_step);
  read(v, "optimizer_steps", s.optimizer_steps);
  read(v, "max_epochs", s.max_epochs);
  read(v, "has_best", s.has_best);
  read(v, "best_metric", s.best_metric);
  read(v, "best_epoch", s.best_epoch);
  read(v, "stop_reason", s.stop_reason);
  read(v, "loss_sums", s.loss_sums);
  read(v, "loss_weight", s.loss_weight);
  read(v, "images", s.images);
  read(v, "train_values", s.train_values);
  read(v, "valid_values", s.valid_values);
  read(v, "test_values", s.test_values);
  read(v, "valid_epoch", s.valid_epoch);
  read(v, "test_epoch", s.test_epoch);
  read(v, "non_finite_in_a_row", s.non_finite_in_a_row);
  read(v, "averaged", s.averaged);
  read(v, "best_epochs", s.best_epochs);
  read(v, "kept_epochs", s.kept_epochs);
  read(v, "retired", s.retired);
  return s;
}

TrainState state_of_reference(const tensor::Checkpoint& checkpoint, const std::string& watched,
                              int batches_per_epoch) {
  TrainState s;
  s.epoch = static_cast<int>(checkpoint.epoch);
  s.global_step = static_cast<std::int64_t>(s.epoch) * batches_per_epoch;
  if (checkpoint.best_metrics && checkpoint.best_metrics->tracked_metric_name == watched) {
    for (const auto& [name, value] : checkpoint.best_metrics->valid) {
      if (name != watched) continue;
      s.has_best = true;
      s.best_metric = value;
    }
  }
  return s;
}

}  // namespace sgtrain::train
