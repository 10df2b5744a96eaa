#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "command.h"
#include "core/error.h"
#include "core/log.h"
#include "core/plugin.h"
#include "core/text.h"
#include "data/dataset.h"
#include "data/processing.h"
#include "data/transform.h"
#include "loggers/logger.h"
#include "losses/loss.h"
#include "metrics/metric.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "postprocess/postprocess.h"
#include "recipe/recipe.h"
#include "train/callback.h"
#include "train/training_params.h"

namespace sgtrain::app {
namespace {

/// A table: name, type, then default, bounds and meaning.
void print_keys(const std::vector<core::KeyDoc>& keys) {
  std::size_t name = 0, type = 0;
  for (const core::KeyDoc& key : keys) {
    name = std::max(name, key.key.size());
    type = std::max(type, key.type.size());
  }
  for (const core::KeyDoc& key : keys) {
    std::string line = fmt::format("    {:<{}}  {:<{}}  ", key.key, name, key.type, type);
    line += key.required ? "required"
                         : "default " + (key.default_value.empty() ? "''" : key.default_value);
    if (!key.bounds.empty()) line += ", " + key.bounds;
    if (!key.help.empty()) line += "; " + key.help;
    core::log::result("{}\n", line);
  }
}

/// File of a registration as it stands in the source tree ("lib/losses/cross_entropy.cpp").
std::string source_of(const std::string& file) {
  const auto at = file.rfind("/lib/");
  return at == std::string::npos ? file : file.substr(at + 1);
}

template <class Registry>
void print_registry(const Registry& registry, bool brief) {
  for (const std::string& name : registry.names()) {
    const auto* entry = registry.find(name);
    if (brief) {
      core::log::result("{}\n", name);
      continue;
    }
    const std::vector<std::string> aliases(entry->names.begin() + 1, entry->names.end());
    core::log::result("{}{}  ({}:{})\n", name,
                      aliases.empty() ? "" : " [also " + core::join(aliases) + "]",
                      source_of(entry->file), entry->line);
    print_keys(Registry::describe(*entry));
  }
}

void print_training_params(bool brief) {
  const auto keys = train::describe_training_params();
  if (!brief) return print_keys(keys);
  for (const core::KeyDoc& key : keys) core::log::result("{}\n", key.key);
}

struct Kind {
  const char* name;
  void (*print)(bool brief);
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all{
      {"models", [](bool b) { print_registry(models::Model::registry(), b); }},
      {"losses", [](bool b) { print_registry(losses::Loss::registry(), b); }},
      {"metrics", [](bool b) { print_registry(metrics::Metric::registry(), b); }},
      {"optimizers", [](bool b) { print_registry(optim::Optimizer::registry(), b); }},
      {"schedulers", [](bool b) { print_registry(optim::LrSchedule::registry(), b); }},
      {"warmups", [](bool b) { print_registry(optim::LrWarmup::registry(), b); }},
      {"datasets", [](bool b) { print_registry(data::Dataset::registry(), b); }},
      {"transforms", [](bool b) { print_registry(data::Transform::registry(), b); }},
      {"processings", [](bool b) { print_registry(data::Processing::registry(), b); }},
      {"postprocessing",
       [](bool b) { print_registry(postprocess::DetectionPostprocess::registry(), b); }},
      {"callbacks", [](bool b) { print_registry(train::Callback::registry(), b); }},
      {"loggers", [](bool b) { print_registry(loggers::Logger::registry(), b); }},
      {"training-params", print_training_params},
      {"recipes",
       [](bool) {
         for (const auto& name : recipe::list_recipes()) core::log::result("{}\n", name);
       }},
  };
  return all;
}

}  // namespace

void add_list(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("list", "What there is, with parameters, defaults and source file");
  struct Options {
    std::string kind;
    bool brief = false;
    std::vector<std::string> plugins;
  };
  auto options = std::make_shared<Options>();
  std::vector<std::string> names;
  for (const Kind& kind : kinds()) names.emplace_back(kind.name);
  command->add_option("kind", options->kind, "One of: " + core::join(names))->required();
  command->add_option("--plugin", options->plugins, "Open this plug-in first")
      ->allow_extra_args(false);
  command->add_flag("-q,--names", options->brief, "Names only");
  command->callback([options, names, &action] {
    action = [options, names] {
      for (const std::string& file : options->plugins) core::open_plugin(file);
      for (const Kind& kind : kinds()) {
        if (core::fuzzy_key(kind.name) == core::fuzzy_key(options->kind) ||
            core::fuzzy_key(kind.name) == core::fuzzy_key(options->kind + "s")) {
          kind.print(options->brief);
          return 0;
        }
      }
      throw core::InputError(
          "unknown kind '" + options->kind + "'" + core::did_you_mean(options->kind, names), "list",
          "choose one of: " + core::join(names));
    };
  });
}

}  // namespace sgtrain::app
