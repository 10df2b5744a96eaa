#include <filesystem>
#include <memory>

#include "command.h"
#include "log_options.h"
#include "predict/load_model.h"
#include "recipe_options.h"
#include "train/entry.h"

namespace sgtrain::app {

void add_evaluate(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("evaluate",
                          "Metrics of a checkpoint, by the code of in-training validation")
          ->alias("val");
  struct Options {
    RecipeOptions recipe;
    LogOptions log;
    std::string checkpoint, output;
    bool raw = false, only_tests = false;
  };
  auto options = std::make_shared<Options>();
  options->recipe.add_recipe(*command);
  options->recipe.add_device(*command);
  options->log.add(*command);
  command->add_option(
      "--checkpoint,--weights", options->checkpoint,
      "File, or a run folder (its best); its own recipe is used when none is given");
  command->add_flag("--raw", options->raw, "The trained weights instead of their moving average");
  command->add_flag("--test-loaders", options->only_tests,
                    "The recipe's test sets alone; it needs no other set then");
  command->add_option("-o,--output", options->output, "Also write the values as JSON");
  command->callback([options, &action] {
    action = [options] {
      options->log.apply();
      train::EvaluateOptions evaluate{.entry = {.arguments = invocation().arguments,
                                                .run_dir = {},
                                                .nodes = options->recipe.nodes()},
                                      .checkpoint = {},
                                      .output = {},
                                      .use_ema = !options->raw,
                                      .only_tests = options->only_tests};
      if (options->checkpoint.empty()) options->checkpoint = options->recipe.take_checkpoint();
      if (!options->checkpoint.empty())
        evaluate.checkpoint = predict::checkpoint_file(options->checkpoint);
      if (!options->output.empty()) evaluate.output = options->output;
      if (!evaluate.checkpoint) options->recipe.require_recipe_or_checkpoint();
      recipe::LoadOptions load = options->recipe.load_options(evaluate.checkpoint);
      return train::evaluate_recipe(load, evaluate);
    };
  });
}

}  // namespace sgtrain::app
