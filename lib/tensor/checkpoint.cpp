#include "tensor/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"
#include "tensor/checkpoint_file.h"
#include "tensor/safetensors.h"

namespace sgtrain::tensor {
namespace {

// Where other trainers keep their weights, the averaged ones first.
constexpr std::array kEmaKeys = {"ema_net", "state_dict_ema", "model_ema", "ema_state_dict"};
constexpr std::array kNetKeys = {"net",    "state_dict", "model_state_dict", "model",
                                 "module", "network",    "weights"};

[[noreturn]] void fail(std::string_view what, const std::string& where, std::string_view fix = {}) {
  throw core::InputError(what, where, fix);
}

bool is_state_dict(const Value& value) {
  return value.is_dict() && !value.pairs().empty() &&
         std::any_of(value.pairs().begin(), value.pairs().end(), [](const auto& pair) {
           return pair.first.is_string() && pair.second.is_tensor();
         });
}

std::vector<std::pair<std::string, double>> numbers(const Value* value) {
  std::vector<std::pair<std::string, double>> out;
  if (value == nullptr || !value->is_dict()) return out;
  for (const auto& [name, number] : value->pairs()) {
    const bool readable =
        number.is_number() || (number.is_tensor() && number.as_tensor().numel() == 1);
    if (name.is_string() && readable) out.emplace_back(name.as_string(), number.as_double());
  }
  return out;
}

MetricRecord to_record(const Value& value) {
  MetricRecord out;
  if (const Value* name = value.find("tracked_metric_name"); name != nullptr && name->is_string()) {
    out.tracked_metric_name = name->as_string();
  }
  out.valid = numbers(value.find("valid"));
  out.train = numbers(value.find("train"));
  return out;
}

Value from_record(const MetricRecord& record) {
  Value valid = Value::dict(), train = Value::dict();
  for (const auto& [name, number] : record.valid) valid.append(name, number);
  for (const auto& [name, number] : record.train) train.append(name, number);
  Value out = Value::dict();
  out.append("tracked_metric_name", record.tracked_metric_name);
  out.append("valid", valid);
  out.append("train", train);
  return out;
}

const Value& or_none(const Value* value) {
  static const Value kNone;
  return value != nullptr ? *value : kNone;
}

}  // namespace

StateDict to_state_dict(const Value& value, const std::string& where) {
  if (value.is_object()) {
    fail(fmt::format("a whole Python object of class '{}', not a state_dict", value.type()), where,
         "save `model.state_dict()` in Python");
  }
  if (!value.is_dict()) {
    fail(fmt::format("expected a state_dict, found {}", kind_name(value.kind())), where);
  }
  StateDict out;
  out.reserve(value.pairs().size());
  for (const auto& [name, tensor] : value.pairs()) {
    if (!name.is_string()) fail("a state_dict has a key that is no name", where);
    if (tensor.is_object()) {
      fail(fmt::format("'{}' is an object of class '{}', not a tensor", name.as_string(),
                       tensor.type()),
           where);
    }
    if (tensor.is_tensor()) out.emplace_back(name.as_string(), tensor.as_tensor());
  }
  return out;
}

Value from_state_dict(const StateDict& state) {
  Value::Dict items;
  items.reserve(state.size());
  for (const auto& [name, tensor] : state) items.emplace_back(name, tensor);
  return Value::ordered_dict(std::move(items));
}

void strip_wrapper_prefixes(StateDict& state) {
  constexpr std::array<std::string_view, 2> kPrefixes = {"module.", "_orig_mod."};
  for (bool again = !state.empty(); again;) {
    again = false;
    for (const std::string_view prefix : kPrefixes) {
      const bool all = std::all_of(state.begin(), state.end(), [&](const auto& entry) {
        return entry.first.starts_with(prefix) && entry.first.size() > prefix.size();
      });
      if (!all) continue;
      for (auto& [name, tensor] : state) name.erase(0, prefix.size());
      again = true;
    }
  }
}

Checkpoint Checkpoint::from_value(const Value& value, const std::string& where) {
  if (!value.is_dict() || value.find("net") == nullptr) {
    fail("this is not a training checkpoint: it has no 'net'", where,
         "to start from its weights only, give it as checkpoint_params.checkpoint_path");
  }
  Checkpoint out;
  out.net = to_state_dict(value["net"], where + ": net");
  strip_wrapper_prefixes(out.net);
  if (const Value* ema = value.find("ema_net")) {
    out.ema_net = to_state_dict(*ema, where + ": ema_net");
    strip_wrapper_prefixes(*out.ema_net);
  }
  try {
    if (const Value* acc = value.find("acc"); acc != nullptr && !acc->is_none()) {
      out.acc = acc->as_double();
    }
    if (const Value* epoch = value.find("epoch"); epoch != nullptr && !epoch->is_none()) {
      out.epoch = epoch->as_int();
    }
  } catch (const core::InputError&) {
    throw;
  } catch (const core::Error& error) {
    fail(fmt::format("'acc' or 'epoch' of the checkpoint: {}", error.what()), where);
  }
  out.metrics = to_record(or_none(value.find("metrics")));
  if (const Value* best = value.find("_best_ckpt_metrics")) out.best_metrics = to_record(*best);
  if (const Value* packages = value.find("packages"); packages != nullptr && packages->is_dict()) {
    for (const auto& [name, version] : packages->pairs()) {
      if (!name.is_string() || !version.is_string()) continue;
      out.packages.emplace_back(name.as_string(), version.as_string());
    }
  }
  out.optimizer_state_dict = or_none(value.find("optimizer_state_dict"));
  out.scaler_state_dict = or_none(value.find("scaler_state_dict"));
  out.torch_scheduler_state_dict = or_none(value.find("torch_scheduler_state_dict"));
  out.processing_params = plain_objects(or_none(value.find("processing_params")));
  out.sgtrain = or_none(value.find("sgtrain"));
  return out;
}

Checkpoint Checkpoint::read(const std::filesystem::path& path) {
  return from_value(read_pth(path), path.string());
}

Value Checkpoint::to_value() const {
  Value out = Value::dict();
  out.append("net", from_state_dict(net));
  if (acc) out.append("acc", *acc);
  out.append("epoch", epoch);
  out.append("metrics", from_record(metrics));
  Value versions = Value::dict();
  for (const auto& [name, version] : packages) versions.append(name, version);
  out.append("packages", versions);
  if (best_metrics) out.append("_best_ckpt_metrics", from_record(*best_metrics));
  const auto add = [&out](const char* key, const Value& value) {
    if (!value.is_none()) out.append(key, value);
  };
  add("optimizer_state_dict", optimizer_state_dict);
  add("scaler_state_dict", scaler_state_dict);
  if (ema_net) out.append("ema_net", from_state_dict(*ema_net));
  add("processing_params", processing_params);
  add("torch_scheduler_state_dict", torch_scheduler_state_dict);
  add("sgtrain", sgtrain);
  return out;
}

void Checkpoint::write(const std::filesystem::path& path) const {
  write_pth(path, to_value());
}

Weights read_weights(const std::filesystem::path& path, bool prefer_ema) {
  Weights out;
  if (is_safetensors(path)) {
    out.tensors = read_safetensors(path).tensors;
    strip_wrapper_prefixes(out.tensors);
    return out;
  }
  const Value content = read_pth(path);
  const Value* found = nullptr;
  const auto look = [&](const auto& keys) {
    for (const char* key : keys) {
      const Value* value = content.find(key);
      if (found != nullptr || value == nullptr) continue;
      // A class instance counts, so that the error below names it.
      if (!is_state_dict(*value) && !value->is_object()) continue;
      found = value;
      out.source = key;
    }
  };
  if (prefer_ema) look(kEmaKeys);
  look(kNetKeys);
  if (found == nullptr && (is_state_dict(content) || content.is_object())) found = &content;
  if (found == nullptr) {
    std::vector<std::string> keys;
    if (content.is_dict()) {
      for (const auto& [key, value] : content.pairs()) {
        if (key.is_string() && keys.size() < 20) keys.push_back(key.as_string());
      }
    }
    fail("no weights found in this file", path.string(),
         keys.empty() ? std::string("expected a dict of tensors, found ") +
                            std::string(kind_name(content.kind()))
                      : "its keys are: " + core::join(keys));
  }
  out.tensors =
      to_state_dict(*found, out.source.empty() ? path.string() : path.string() + ": " + out.source);
  strip_wrapper_prefixes(out.tensors);
  if (const Value* params = content.find("processing_params")) {
    out.processing_params = plain_objects(*params);
  }
  return out;
}

Value plain_objects(const Value& value) {
  constexpr std::int64_t kMostElements = 4096;  // of an array that belongs in a recipe
  if (value.is_sequence()) {
    Value::List items;
    for (const Value& item : value.items()) items.push_back(plain_objects(item));
    return value.kind() == Value::Kind::kList ? Value::list(items) : Value::tuple(items);
  }
  if (value.is_dict()) {
    Value::Dict items;
    for (const auto& [key, item] : value.pairs()) items.emplace_back(key, plain_objects(item));
    return value.is_ordered() ? Value::ordered_dict(items) : Value::dict(items);
  }
  if (value.is_tensor() && value.as_tensor().dim() == 1 &&
      value.as_tensor().numel() <= kMostElements) {
    Value out = Value::list();
    const at::Tensor numbers = value.as_tensor().to(at::kDouble);
    for (std::int64_t i = 0; i < numbers.numel(); ++i) out.append(numbers[i].item().toDouble());
    return out;
  }
  if (!value.is_object()) return value;
  const std::string name = value.type().substr(value.type().rfind('.') + 1);
  // An enumeration is its value, any other class its attributes.
  const Value& args = value.args();
  if (value.state().is_none() && args.is_sequence() && args.items().size() == 1) {
    return plain_objects(args.items()[0]);
  }
  const Value& state = value.state().is_dict() ? value.state() : value.contents();
  return Value::dict({{name, state.is_none() ? Value::dict() : plain_objects(state)}});
}

}  // namespace sgtrain::tensor
