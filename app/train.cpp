#include <memory>

#include "command.h"
#include "core/error.h"
#include "log_options.h"
#include "recipe_options.h"
#include "train/entry.h"
#include "train/run_dir.h"

namespace sgtrain::app {
namespace {

struct Options {
  RecipeOptions recipe;
  LogOptions log;
  std::string run_dir;
};

train::EntryOptions entry_of(const Options& options) {
  train::EntryOptions entry{.arguments = invocation().arguments, .run_dir = {}};
  if (!options.run_dir.empty()) entry.run_dir = options.run_dir;
  return entry;
}

/// The folder `sgtrain resume` names: a run, `last`, or anything with one run's checkpoint inside.
std::filesystem::path run_to_resume(const std::string& name) {
  if (name != "last") {
    if (std::filesystem::exists(std::filesystem::path(name) / "recipe.resolved.yaml")) return name;
    throw core::InputError("this is no run folder (it has no recipe.resolved.yaml)",
                           std::filesystem::absolute(name).string(),
                           "name a folder RUN_…, or `last`");
  }
  const auto latest = train::latest_run_anywhere("checkpoints", "ckpt_latest.pth");
  if (!latest) {
    throw core::InputError("no run with a checkpoint",
                           std::filesystem::absolute("checkpoints").string(),
                           "name the run folder: sgtrain resume RUN_DIR");
  }
  return *latest;
}

}  // namespace

void add_train(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "train",
      "Train from a recipe; the word `train` may be left out: sgtrain --recipe R [key=value ...]");
  auto options = std::make_shared<Options>();
  options->recipe.add_recipe(*command);
  options->recipe.add_device(*command);
  options->log.add(*command);
  command->add_option("--run-dir", options->run_dir,
                      "Use this run folder; one that holds a checkpoint is resumed");
  command->callback([options, &action] {
    action = [options] {
      options->log.apply();
      return train::train_recipe(options->recipe.load_options(), entry_of(*options));
    };
  });
}

void add_resume(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "resume", "Go on exactly where a run stopped; overrides such as epochs=150 may follow");
  struct Resume {
    Options common;
    std::string run;
    std::vector<std::string> overrides;
  };
  auto options = std::make_shared<Resume>();
  command->add_option("run", options->run, "Run folder, or `last`")->required();
  command->add_option("overrides", options->overrides, "key=value …");
  options->common.recipe.add_plugins(*command);
  options->common.recipe.add_device(*command);
  options->common.log.add(*command);
  command->callback([options, &action] {
    action = [options] {
      options->common.log.apply();
      const auto dir = run_to_resume(options->run);
      recipe::LoadOptions load = options->common.recipe.device_overrides();
      load.recipe = (dir / "recipe.resolved.yaml").string();
      load.overrides.insert(load.overrides.begin(), options->overrides.begin(),
                            options->overrides.end());
      train::EntryOptions entry{.arguments = invocation().arguments, .run_dir = dir};
      return train::train_recipe(load, entry);
    };
  });
}

}  // namespace sgtrain::app
