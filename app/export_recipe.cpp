#include <cstdio>
#include <memory>

#include "command.h"
#include "recipe_options.h"

namespace sgtrain::app {

void add_export_recipe(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand(
      "export-recipe", "Print one flat, resolved YAML; loading it gives the same run");
  struct Options {
    RecipeOptions recipe;
    bool allow_missing = false;
  };
  auto options = std::make_shared<Options>();
  options->recipe.add_recipe(*command);
  options->recipe.add_device(*command);
  command->add_flag("--allow-missing", options->allow_missing,
                    "Leave mandatory values that nobody gave as ?"
                    "??");
  command->callback([options, &action] {
    action = [options] {
      recipe::LoadOptions load = options->recipe.load_options();
      load.allow_missing = options->allow_missing;
      std::fputs(recipe::to_yaml(recipe::load(load)).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace sgtrain::app
