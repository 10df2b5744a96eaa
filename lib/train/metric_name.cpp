#include "train/metric_name.h"

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::train {

std::vector<std::string> logged_names(const Run& run) {
  std::vector<std::string> names = run.loss->component_names();
  for (const auto& metric : run.valid_metrics) {
    for (const auto& value : metric->describe()) names.push_back(value.name);
  }
  return names;
}

std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names,
                                const std::string& key) {
  for (const std::string& name : names) {
    if (name == wanted) return name;
  }
  for (const std::string& name : names) {
    const std::string component = name.substr(name.rfind('/') + 1);
    if (core::fuzzy_key(name) == core::fuzzy_key(wanted) ||
        core::fuzzy_key(component) == core::fuzzy_key(wanted)) {
      return name;
    }
  }
  throw core::InputError(
      key + " '" + wanted + "' is none of this run's values" + core::did_you_mean(wanted, names),
      "training_hyperparams." + key, "choose one of: " + core::join(names));
}

}  // namespace sgtrain::train
