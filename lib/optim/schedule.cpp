#include "optim/schedule.h"

namespace sgtrain::optim {

LrSchedule::Registry& LrSchedule::registry() {
  static Registry registry("lr_mode");
  return registry;
}

LrWarmup::Registry& LrWarmup::registry() {
  static Registry registry("warmup_mode");
  return registry;
}

WarmupStart WarmupStart::from(core::Node& node) {
  WarmupStart out;
  constexpr const char* kKey = "warmup_initial_lr";
  if (!node.has(kKey)) {
    node.find<double>(kKey);
    return out;
  }
  core::Node value = node.child(kKey);
  if (!value.is_map()) {
    out.all = node.get<double>(kKey).min(0.0);
    return out;
  }
  for (const std::string& name : value.keys()) {
    out.by_group[name] = value.get<double>(name).min(0.0);
  }
  return out;
}

std::optional<double> WarmupStart::of(const ParamGroup& group) const {
  if (all) return all;
  for (const std::string& name : {group.name, std::string("default")}) {
    if (const auto found = by_group.find(name); found != by_group.end()) return found->second;
  }
  return std::nullopt;
}

}  // namespace sgtrain::optim
