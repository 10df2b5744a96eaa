#include <memory>

#include "command.h"
#include "core/log.h"
#include "log_options.h"
#include "recipe_options.h"
#include "train/entry.h"
#include "train/run_plan.h"

namespace sgtrain::app {

void add_check(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("check", "All mistakes of a recipe at once, before any data is touched");
  struct Options {
    RecipeOptions recipe;
    LogOptions log;
    bool data = false;
  };
  auto options = std::make_shared<Options>();
  options->recipe.add_recipe(*command);
  options->recipe.add_device(*command);
  options->log.add(*command);
  command->add_flag("--data", options->data, "Also index and validate the data sets");
  command->callback([options, &action] {
    action = [options] {
      options->log.apply();
      const train::RunPlan plan = train::plan_run(options->recipe.load_options());
      for (const std::string& note : plan.notes) core::log::result("note: {}\n", note);
      if (options->data) train::check_data(plan);
      core::log::result("{}: no mistakes\n", plan.file.string());
      return 0;
    };
  });
}

}  // namespace sgtrain::app
