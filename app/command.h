// The commands of sgtrain. Each is one file; main.cpp lists them in the order of --help.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace sgtrain::app {

/// Set by the chosen command's callback; main runs it and returns its exit code.
using Action = std::function<int()>;

void add_train(CLI::App& root, Action& action);
void add_resume(CLI::App& root, Action& action);
void add_evaluate(CLI::App& root, Action& action);
void add_predict(CLI::App& root, Action& action);
void add_check(CLI::App& root, Action& action);
void add_export_recipe(CLI::App& root, Action& action);
void add_list(CLI::App& root, Action& action);
void add_inspect(CLI::App& root, Action& action);
void add_doctor(CLI::App& root, Action& action);

/// How this process was started: forked workers start the same way.
struct Invocation {
  std::vector<std::string> arguments;  // argv after normalisation, without the program
};
const Invocation& invocation();

}  // namespace sgtrain::app
