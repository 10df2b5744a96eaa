// Building optimizers and schedules by name from the text values of the goldens' configurations.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/node.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace sgtrain::optim::testing {

using Json = nlohmann::ordered_json;

/// JSON as a recipe's tree. Texts that Python would print for numbers, lists and truth values
/// ("0.1", "[2, 4]", "True") become these.
inline core::TreePtr tree_of(const Json& json) {
  using core::Tree;
  if (json.is_boolean()) return Tree::of(json.get<bool>());
  if (json.is_number_integer()) return Tree::of(json.get<std::int64_t>());
  if (json.is_number()) return Tree::of(json.get<double>());
  if (json.is_array()) {
    core::TreePtr list = Tree::make_list();
    for (const Json& item : json) list->list.push_back(tree_of(item));
    return list;
  }
  if (json.is_object()) {
    core::TreePtr map = Tree::make_map();
    for (const auto& [key, value] : json.items()) map->set(key, tree_of(value));
    return map;
  }
  if (!json.is_string()) return Tree::null();
  std::string text = json.get<std::string>();
  if (text == "True" || text == "False") return Tree::of(text == "True");
  if (text == "None") return Tree::null();
  for (char& c : text) {
    if (c == '\'') c = '"';
  }
  const Json parsed = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() || parsed.is_string() ? Tree::of(json.get<std::string>())
                                                     : tree_of(parsed);
}

inline core::Node node_of(const Json& json) {
  return core::Node(tree_of(json), std::make_shared<core::Problems>());
}

inline std::unique_ptr<Optimizer> make_optimizer(const std::string& name,
                                                 const Json& params = Json::object()) {
  core::Node node = node_of(params);
  auto maker = Optimizer::registry().parse({.name = name, .params = node});
  node.report_unread();
  node.problems()->throw_if_any("optimizer_params");
  return maker();
}

/// Schedule and warm-up of a run, and the rates they give; a small stand-in for the trainer that
/// asks in the order which schedule.h describes.
class Schedules {
 public:
  /// @param config training_hyperparams as in the goldens' configurations.
  Schedules(const Json& config, const RunLength& length) {
    core::Node node = node_of(config);
    if (auto mode = node.find_component("lr_mode")) {
      if (mode->params.size() == 0) mode->params = node;
      schedule_ = LrSchedule::registry().parse(*mode)(length);
    }
    if (node.has("warmup_mode")) {
      const std::string name = node.get<std::string>("warmup_mode");
      warmup_ = LrWarmup::registry().parse({.name = name, .params = node})(length);
    }
    node.problems()->throw_if_any("schedule");
  }

  void apply(const Position& position, std::vector<ParamGroup>& groups) const {
    for (LrSchedule* part : {static_cast<LrSchedule*>(warmup_.get()), schedule_.get()}) {
      if (part == nullptr) continue;
      part->step(position);
      for (ParamGroup& group : groups) {
        if (const auto lr = part->at(position, group)) group.lr = *lr;
      }
    }
  }

  LrSchedule& schedule() const { return *schedule_; }

  static RunLength length_of(const Json& config, int max_epochs, int batches) {
    core::Node node = node_of(config);
    return {.max_epochs = max_epochs,
            .batches_per_epoch = batches,
            .batch_accumulate = node.get_or("batch_accumulate", 1),
            .warmup_epochs = node.get_or("lr_warmup_epochs", 0),
            .warmup_steps = node.get_or("lr_warmup_steps", 0),
            .cooldown_epochs = node.get_or("lr_cooldown_epochs", 0)};
  }

 private:
  std::unique_ptr<LrSchedule> schedule_;
  std::unique_ptr<LrWarmup> warmup_;
};

}  // namespace sgtrain::optim::testing
