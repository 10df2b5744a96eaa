#include "train/metric_name.h"

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::train {

std::vector<std::string> logged_names(
    const losses::Loss& loss, const std::vector<std::unique_ptr<metrics::Metric>>& metrics) {
  std::vector<std::string> names = loss.component_names();
  for (const auto& metric : metrics) {
    for (const auto& value : metric->describe()) names.push_back(value.name);
  }
  return names;
}

std::vector<std::string> logged_names(const Run& run) {
  return logged_names(*run.loss, run.valid_metrics);
}

std::optional<std::string> find_metric_name(const std::string& wanted,
                                            const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (name == wanted) return name;
  }
  const std::string key = core::fuzzy_key(wanted);
  for (const std::string& name : names) {
    if (core::fuzzy_key(name) == key || core::fuzzy_key(name.substr(name.rfind('/') + 1)) == key) {
      return name;
    }
  }
  return std::nullopt;
}

std::string unknown_metric(const std::string& wanted, const std::vector<std::string>& names) {
  return "'" + wanted + "' is none of this run's values" + core::did_you_mean(wanted, names) +
         " (choose one of: " + core::join(names) + ")";
}

std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names,
                                const std::string& key) {
  if (auto name = find_metric_name(wanted, names)) return *std::move(name);
  throw core::InputError(unknown_metric(wanted, names), "training_hyperparams." + key);
}

}  // namespace sgtrain::train
