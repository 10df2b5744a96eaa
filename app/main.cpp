// sgtrain: the command line. Parses, runs one command, and turns any error into one message and an
// exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "aliases.h"
#include "command.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "recipe/recipe.h"
#include "version.h"

namespace sgtrain::app {
namespace {

Invocation& mutable_invocation() {
  static Invocation invocation;
  return invocation;
}

/// `--some_option` is `--some-option`; `-cn`, `-cd` are Hydra's long short options.
std::string canonical_option(std::string word) {
  if (word == "-cn") return "--config-name";
  if (word == "-cd") return "--config-dir";
  if (!word.starts_with("--")) return word;
  const auto end = std::min(word.find('='), word.size());
  std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return word;
}

std::vector<std::string> command_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    names.insert(names.end(), command->get_aliases().begin(), command->get_aliases().end());
  }
  return names;
}

/// A first word that is neither a command nor a recipe, but resembles a command.
void refuse_misspelt_command(const std::vector<std::string>& words,
                             const std::vector<std::string>& commands) {
  const std::string& word = words.front();
  const bool plain = word.find_first_of("=./~+-") == std::string::npos;
  const bool own_folder = std::any_of(words.begin(), words.end(), [](const std::string& option) {
    return option.starts_with("--config-") || option.starts_with("--cd");
  });
  if (!plain || own_folder || core::nearest(word, commands, 1).empty()) return;
  const auto recipes = recipe::list_recipes({"."});
  if (std::find(recipes.begin(), recipes.end(), word) != recipes.end()) return;
  throw core::InputError(
      "there is no command or recipe '" + word + "'" + core::did_you_mean(word, commands),
      "command line", "`sgtrain --help` lists the commands, `sgtrain list recipes` the recipes");
}

std::vector<std::string> arguments_of(int argc, char** argv, const CLI::App& root) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto commands = command_names(root);
  words = without_aliases(std::move(words), commands);
  std::transform(words.begin(), words.end(), words.begin(), canonical_option);
  if (words.empty()) return words;
  static const std::vector<std::string> kRootFlags{"-h", "--help", "--version", "--help-all"};
  const bool is_flag =
      std::find(kRootFlags.begin(), kRootFlags.end(), words.front()) != kRootFlags.end();
  if (is_flag || std::find(commands.begin(), commands.end(), words.front()) != commands.end())
    return words;
  refuse_misspelt_command(words, commands);
  // Bare words and options belong to `train`, the command that gave the program its name.
  words.insert(words.begin(), "train");
  return words;
}

/// ", did you mean '--recipe'?" for an option that the chosen command does not have.
std::string option_hint(const CLI::App& root, const std::vector<std::string>& words) {
  for (const CLI::App* command : root.get_subcommands()) {
    std::vector<std::string> known;
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    for (const std::string& word : words) {
      const std::string name = word.substr(0, word.find('='));
      if (!name.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end())
        continue;
      if (const std::string hint = core::did_you_mean(name, known); !hint.empty())
        return "sgtrain: no option " + name + hint + "\n";
    }
  }
  return {};
}

int run(int argc, char** argv) {
  CLI::App root{"Trains computer-vision models from YAML recipes", "sgtrain"};
  root.set_version_flag("--version", SGTRAIN_VERSION);
  root.require_subcommand(0, 1);
  root.footer(
      "Exit codes: 0 done, 1 failed at run time, 2 wrong input, 3 done but some inputs were "
      "skipped,\n"
      "128+n ended by signal n after saving.");
  Action action;
  add_train(root, action);
  add_resume(root, action);
  add_evaluate(root, action);
  add_predict(root, action);
  add_check(root, action);
  add_export_recipe(root, action);
  add_list(root, action);
  add_inspect(root, action);
  add_doctor(root, action);
  for (CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    command->option_defaults()->always_capture_default();
  }

  auto words = arguments_of(argc, argv, root);
  if (words.empty()) {
    std::fputs(root.help().c_str(), stdout);
    return static_cast<int>(core::ExitCode::kBadInput);
  }
  mutable_invocation().arguments = words;
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    root.parse(words);
  } catch (const CLI::ParseError& error) {
    const int code = root.exit(error);
    if (code == static_cast<int>(CLI::ExitCodes::ExtrasError))
      std::fputs(option_hint(root, invocation().arguments).c_str(), stderr);
    return code == 0 ? 0 : static_cast<int>(core::ExitCode::kBadInput);
  }
  if (!action) {
    std::fputs(root.help().c_str(), stdout);
    return static_cast<int>(core::ExitCode::kBadInput);
  }
  return action();
}

}  // namespace

static int failed(const std::string& text, core::ExitCode code) {
  std::fprintf(stderr, "sgtrain: %s\n", text.c_str());
  core::log::debug("{}", text);  // to the log file of a run, which may outlive the terminal
  return static_cast<int>(code);
}

const Invocation& invocation() {
  return mutable_invocation();
}

}  // namespace sgtrain::app

int main(int argc, char** argv) {
  using sgtrain::core::ExitCode;
  try {
    return sgtrain::app::run(argc, argv);
  } catch (const sgtrain::core::Error& error) {
    return sgtrain::app::failed(error.what(), error.exit_code());
  } catch (const std::filesystem::filesystem_error& error) {
    // A path that cannot be used is the user's, unless the device itself fails.
    const bool broken =
        error.code() == std::errc::io_error || error.code() == std::errc::no_space_on_device;
    return sgtrain::app::failed(error.path1().string() + ": " + error.code().message(),
                                broken ? ExitCode::kFailed : ExitCode::kBadInput);
  } catch (const std::bad_alloc&) {
    return sgtrain::app::failed("out of memory: smaller batches or pictures need less",
                                ExitCode::kFailed);
  } catch (const std::exception& error) {
    // Only first lines: LibTorch appends a C++ stack that helps nobody at the command line.
    const std::string text = error.what();
    const auto end = std::min(text.find("\nException raised from"), text.find("\nframe #"));
    return sgtrain::app::failed(text.substr(0, end), ExitCode::kFailed);
  }
}
