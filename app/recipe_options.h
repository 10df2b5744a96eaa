// Options shared by all commands that compose a recipe. Every flag is sugar for an override, so
// that the resolved recipe says everything.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "train/entry.h"

namespace sgtrain::app {

class RecipeOptions {
 public:
  /// Adds --recipe, --config-dir and the positional words (RECIPE, key=value …).
  void add_recipe(CLI::App& command);
  /// Adds --plugin and --no-exec.
  void add_plugins(CLI::App& command);
  /// Adds --gpus, --device, --processes, --precision and the rest of what places a run.
  void add_device(CLI::App& command);

  /// @param checkpoint its run folder's recipe is used when none is named
  /// @throws core::InputError when there is no recipe
  recipe::LoadOptions load_options(
      const std::optional<std::filesystem::path>& checkpoint = {}) const;
  /// A checkpoint or run folder that stands where a recipe may, taken from there; else empty.
  std::string take_checkpoint();
  /// @throws core::InputError when neither is given
  void require_recipe_or_checkpoint() const;
  /// The words of the command line that are overrides, as typed.
  std::vector<std::string> overrides() const;
  /// The overrides that the device flags stand for, without a recipe.
  recipe::LoadOptions device_overrides() const;
  /// --nnodes and its companions.
  /// @throws core::InputError when they do not fit together
  train::Nodes nodes() const;

 private:
  void add_nodes(CLI::App& command);

  std::string recipe_;
  std::vector<std::string> config_dirs_, words_;
  std::string gpus_, nproc_, device_, precision_;
  int processes_ = 0;
  double dist_timeout_ = 0;
  std::vector<std::string> plugins_;
  bool no_exec_ = false;
  train::Nodes nodes_;
  std::string endpoint_, rendezvous_id_;
};

}  // namespace sgtrain::app
