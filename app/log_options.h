// -q, -v, --json-logs, --no-color: how much the program says, and in which form.
#pragma once

#include <CLI/CLI.hpp>

namespace sgtrain::app {

class LogOptions {
 public:
  void add(CLI::App& command) {
    command.add_flag("-q,--quiet", quiet_, "Warnings and errors only");
    command.add_flag("-v,--verbose", verbose_, "Also details");
    command.add_flag("--json-logs", json_, "One JSON object a line on standard error");
    command.add_flag("--no-color", no_color_, "No colours (NO_COLOR does the same)");
  }
  void apply() const;

 private:
  bool quiet_ = false, verbose_ = false, json_ = false, no_color_ = false;
};

}  // namespace sgtrain::app
