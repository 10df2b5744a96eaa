#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "command.h"
#include "core/error.h"
#include "core/log.h"
#include "core/process.h"
#include "core/signals.h"
#include "core/text.h"
#include "log_options.h"
#include "recipe/overrides.h"
#include "recipe_options.h"
#include "train/entry.h"
#include "train/run_dir.h"

namespace sgtrain::app {
namespace {

struct Options {
  RecipeOptions recipe;
  LogOptions log;
  std::string run_dir, preempt_signal = "USR2", cfg;
  int overfit_batches = 0;
  bool dry_run = false, multirun = false, resolve = false;
};

train::EntryOptions entry_of(const Options& options) {
  train::EntryOptions entry{
      .arguments = invocation().arguments, .run_dir = {}, .nodes = options.recipe.nodes()};
  if (!options.run_dir.empty()) entry.run_dir = options.run_dir;
  entry.dry_run = options.dry_run;
  return entry;
}

recipe::LoadOptions load_options(const Options& options) {
  recipe::LoadOptions load = options.recipe.load_options();
  if (options.overfit_batches > 0) {
    const std::string batches = std::to_string(options.overfit_batches);
    load.overrides.push_back("++training_hyperparams.max_train_batches=" + batches);
    load.overrides.push_back("++training_hyperparams.max_valid_batches=" + batches);
    load.overrides.push_back("++dataset_params.train_dataloader_params.shuffle=False");
  }
  return load;
}

/// One run of a sweep in a process of its own; signals reach it. Returns its exit code.
int run_alone(const std::vector<std::string>& arguments) {
  core::ProcessOptions options;
  options.argv = {core::executable_path().string()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  core::Process run = core::Process::start(options);
  bool told = false;
  for (;;) {
    if (const auto status = run.wait_for(std::chrono::milliseconds(200)))
      return status->shell_code();
    if (core::signals::stop_requested() && !told) run.send_signal(core::signals::stop_signal());
    told = core::signals::stop_requested();
  }
}

/// `-m`: every combination of the alternatives, one run after another, until one fails.
int run_sweep(const Options& options) {
  core::signals::install();
  const std::vector<std::string> given = options.recipe.overrides();
  const auto runs = recipe::sweep(given);
  std::vector<std::string> common = invocation().arguments;
  std::erase_if(common, [&](const std::string& word) {
    return word == "-m" || word == "--multirun" ||
           std::find(given.begin(), given.end(), word) != given.end();
  });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    core::log::result("run {} of {}: {}\n", i + 1, runs.size(), core::join(runs[i], " "));
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), runs[i].begin(), runs[i].end());
    if (const int code = run_alone(arguments); code != 0) return code;
  }
  return 0;
}

int train(const Options& options) {
  if (options.multirun) return run_sweep(options);
  if (!options.cfg.empty()) {
    std::fputs(recipe::to_yaml(recipe::load(load_options(options))).c_str(), stdout);
    return 0;
  }
  core::signals::install_preempt(options.preempt_signal);
  return train::train_recipe(load_options(options), entry_of(options));
}

void add_preempt_signal(CLI::App& command, Options& options) {
  command.add_option("--preempt-signal", options.preempt_signal,
                     "Signal that means: save and leave with 128+n ('none': no such signal)");
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
  command->add_flag("--dry-run", options->dry_run,
                    "Data report, full-size training and validation steps, one checkpoint; then "
                    "peak memory, time per epoch, disk needed. Keeps nothing");
  command
      ->add_option("--overfit-batches", options->overfit_batches,
                   "Train on the first N batches only, unshuffled, and validate on as many")
      ->check(CLI::PositiveNumber);
  add_preempt_signal(*command, *options);
  command->add_flag(
      "-m,--multirun", options->multirun,
      "Comma lists in overrides (lr=0.1,0.2) are alternatives: one run after another");
  command->add_option("--cfg", options->cfg, "'job': print the resolved recipe, as export-recipe")
      ->check(CLI::IsMember({"job"}));
  command->add_flag("--resolve", options->resolve, "With --cfg; it is always resolved");
  command->callback([options, &action] {
    action = [options] {
      options->log.apply();
      return train(*options);
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
  add_preempt_signal(*command, options->common);
  options->common.log.add(*command);
  command->callback([options, &action] {
    action = [options] {
      options->common.log.apply();
      core::signals::install_preempt(options->common.preempt_signal);
      const auto dir = run_to_resume(options->run);
      recipe::LoadOptions load = options->common.recipe.device_overrides();
      load.recipe = (dir / "recipe.resolved.yaml").string();
      load.overrides.insert(load.overrides.begin(), options->overrides.begin(),
                            options->overrides.end());
      train::EntryOptions entry{.arguments = invocation().arguments,
                                .run_dir = dir,
                                .nodes = options->common.recipe.nodes()};
      return train::train_recipe(load, entry);
    };
  });
}

}  // namespace sgtrain::app
