// Names under which a run's values are logged.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "losses/loss.h"
#include "metrics/metric.h"
#include "train/run.h"

namespace sgtrain::train {

/// Of validation: the loss's components, then every metric's values.
std::vector<std::string> logged_names(const losses::Loss& loss,
                                      const std::vector<std::unique_ptr<metrics::Metric>>& metrics);
std::vector<std::string> logged_names(const Run& run);

/// The logged name that `wanted` means: exact, else the same fuzzy key, else the component of a
/// loss; nullopt when there is none.
std::optional<std::string> find_metric_name(const std::string& wanted,
                                            const std::vector<std::string>& names);
/// What to say then: the nearest name, and all names.
std::string unknown_metric(const std::string& wanted, const std::vector<std::string>& names);
/// find_metric_name(). @throws core::InputError naming `key`
std::string resolve_metric_name(const std::string& wanted, const std::vector<std::string>& names,
                                const std::string& key = "metric_to_watch");

}  // namespace sgtrain::train
