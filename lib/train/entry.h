// What the commands `train`, `resume` and `evaluate` do with a composed recipe: processes, devices,
// run folder, then training or scoring.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "train/run_plan.h"
#include "train/state.h"

namespace sgtrain::train {

/// Several machines, each of which is given the same command with its own rank.
struct Nodes {
  int count = 1, rank = 0;
  std::string master_addr;
  int master_port = 0;
};

struct EntryOptions {
  std::vector<std::string> arguments;            // this program's own, for workers
  std::optional<std::filesystem::path> run_dir;  // --run-dir: this folder; an existing one resumes
  /// Everything once and nothing kept: data report, a few full-size training steps, a validation
  /// batch, one checkpoint; then what a run would cost.
  bool dry_run = false;
  Nodes nodes{};
};

/// Trains; returns the exit code. Starts worker processes first where the recipe asks for several.
int train_recipe(const recipe::LoadOptions& recipe, const EntryOptions& options);

/// Scores a checkpoint (or first weights) on the recipe's validation and test sets; prints the
/// values, on the main rank also into `output` (JSON) when given.
struct EvaluateOptions {
  EntryOptions entry;
  std::optional<std::filesystem::path> checkpoint;
  std::optional<std::filesystem::path> output;
  bool use_ema = true;  // else the raw weights of a training checkpoint
  bool only_tests = false;
};
int evaluate_recipe(const recipe::LoadOptions& recipe, const EvaluateOptions& options);

}  // namespace sgtrain::train
