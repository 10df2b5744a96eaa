#include <memory>

#include "command.h"
#include "core/error.h"
#include "core/log.h"
#include "log_options.h"
#include "recipe_options.h"
#include "train/check.h"
#include "train/run_plan.h"

namespace sgtrain::app {
namespace {

std::string listed(const std::string& title, const std::vector<std::string>& mistakes) {
  if (mistakes.size() == 1) return mistakes.front();
  std::string text = title + ": " + std::to_string(mistakes.size()) + " mistakes";
  for (const std::string& mistake : mistakes) text += "\n- " + mistake;
  return text;
}

}  // namespace

void add_check(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("check",
                                      "All mistakes of a recipe at once, and the devices and "
                                      "weights it asks for; no data is touched "
                                      "unless --data is given");
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
      const auto mistakes = train::mistakes_of(plan, options->data);
      if (!mistakes.empty()) throw core::InputError(listed(plan.file.string(), mistakes));
      core::log::result("{}: no mistakes\n", plan.file.string());
      return 0;
    };
  });
}

}  // namespace sgtrain::app
