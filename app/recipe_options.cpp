#include "recipe_options.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/text.h"
#include "predict/load_model.h"
#include "train/data_key.h"
#include "train/exec_policy.h"

namespace sgtrain::app {
namespace {

/// `key=value`, `+key=value`, `~key`; anything else is the recipe's name.
bool is_override(const std::string& word) {
  return word.find('=') != std::string::npos || word.starts_with("~") || word.starts_with("+");
}

/// Writes the recipe that a checkpoint carries to a file of its own, which goes at the end of the
/// process: the recipe engine and its messages work with files.
std::filesystem::path keep_until_exit(const std::string& recipe) {
  struct File {
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("sgtrain-recipe-" + std::to_string(::getpid()));
    ~File() {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    }
  };
  static const File file;
  std::filesystem::create_directories(file.folder);
  const auto path = file.folder / "recipe.resolved.yaml";
  core::write_file_atomically(path, recipe);
  return path;
}

}  // namespace

void RecipeOptions::add_recipe(CLI::App& command) {
  add_plugins(command);
  command.add_option("-r,--recipe,--config-name,--cn", recipe_,
                     "Recipe: a path, or a shipped name with or without .yaml");
  command
      .add_option("--config-dir,--cd,--config-path", config_dirs_,
                  "Own recipe folder, searched first")
      ->allow_extra_args(false);  // one for each flag: what follows may be an override
  command.add_option("words", words_,
                     "RECIPE (when --recipe is not given) and key=value overrides");
}

void RecipeOptions::add_plugins(CLI::App& command) {
  command.add_option("--plugin", plugins_, "Open this plug-in (as `plugins` of a recipe)")
      ->allow_extra_args(false);
  command.add_flag(
      "--no-exec", no_exec_,
      "Refuse plug-ins and ShellCallback, so that a recipe cannot run code of its own");
}

void RecipeOptions::add_device(CLI::App& command) {
  command.add_option("--gpus,--devices", gpus_, "Number of GPUs, one process each, or 'all'");
  command.add_option("--nproc-per-node", nproc_,
                     "torchrun's name for --gpus, or with --device cpu for --processes");
  command.add_option("--device", device_,
                     "cpu, cuda, cuda:1 or a list of GPU ids such as 0,2,3 (one process each)");
  command.add_option("--processes", processes_, "With --device cpu: so many processes over Gloo")
      ->check(CLI::Range(1, 1024));
  command.add_option("--precision,--amp", precision_,
                     "auto (what the device does fast), fp32, bf16 or fp16");
  command
      .add_option("--dist-timeout", dist_timeout_,
                  "Seconds after which a stalled process ends the run")
      ->check(CLI::PositiveNumber);
  add_nodes(command);
}

void RecipeOptions::add_nodes(CLI::App& command) {
  command.add_option("--nnodes", nodes_.count, "Machines; start this command on each of them")
      ->check(CLI::Range(1, 65536));
  command.add_option("--node-rank", nodes_.rank, "Number of this machine, from 0")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--master-addr", nodes_.master_addr, "Address of machine 0");
  command.add_option("--master-port", nodes_.master_port, "A free port of machine 0")
      ->check(CLI::Range(1, 65535));
  command.add_option("--rdzv-endpoint", endpoint_, "ADDRESS:PORT, instead of the two above");
  command.add_option("--rdzv-id", rendezvous_id_, "Accepted as torchrun does; not needed");
}

train::Nodes RecipeOptions::nodes() const {
  train::Nodes nodes = nodes_;
  const auto colon = endpoint_.rfind(':');
  if (!endpoint_.empty()) {
    const std::string digits = colon == std::string::npos ? "" : endpoint_.substr(colon + 1);
    const bool number = !digits.empty() && digits.size() <= 5 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
    nodes.master_port = number ? std::stoi(digits) : 0;
    if (nodes.master_port < 1 || nodes.master_port > 65535) {
      throw core::InputError("'" + endpoint_ + "' is no ADDRESS:PORT", "--rdzv-endpoint",
                             "for example --rdzv-endpoint node0:29500");
    }
    nodes.master_addr = endpoint_.substr(0, colon);
  }
  return nodes;
}

std::string RecipeOptions::take_checkpoint() {
  const auto names_weights = [](const std::string& word) {
    std::error_code ignored;
    return !is_override(word) && (word.ends_with(".pth") || word.ends_with(".safetensors") ||
                                  std::filesystem::is_directory(word, ignored));
  };
  const auto found = std::find_if(words_.begin(), words_.end(), names_weights);
  if (found == words_.end()) return {};
  std::string checkpoint = *found;
  words_.erase(found);
  return checkpoint;
}

void RecipeOptions::require_recipe_or_checkpoint() const {
  if (!recipe_.empty() || !std::all_of(words_.begin(), words_.end(), is_override)) return;
  throw core::InputError("nothing to evaluate is given", "command line",
                         "name a checkpoint or a run folder: sgtrain evaluate --checkpoint RUN");
}

recipe::LoadOptions RecipeOptions::load_options(
    const std::optional<std::filesystem::path>& checkpoint) const {
  recipe::LoadOptions options;
  options.recipe = recipe_;
  for (const std::string& word : words_) {
    if (is_override(word)) {
      options.overrides.push_back(word);
    } else if (options.recipe.empty()) {
      options.recipe = word;
    } else {
      throw core::InputError(
          "'" + word + "' is neither an override (key=value) nor the only recipe (it is '" +
              options.recipe + "')",
          "command line", "write overrides as key=value");
    }
  }
  if (options.recipe.empty() && checkpoint) {
    const auto beside = checkpoint->parent_path() / "recipe.resolved.yaml";
    if (std::filesystem::exists(beside)) {
      options.recipe = beside.string();
    } else if (const auto embedded = predict::recipe_of(*checkpoint)) {
      options.recipe = keep_until_exit(*embedded).string();
    }
  }
  if (options.recipe.empty()) {
    throw core::InputError(
        "no recipe given", "command line",
        "sgtrain --recipe NAME_OR_PATH; `sgtrain list recipes` shows the shipped ones");
  }
  options.edit = train::apply_data_key;
  for (const std::string& dir : config_dirs_) options.config_dirs.emplace_back(dir);
  recipe::LoadOptions flags = device_overrides();
  for (std::string& flag : flags.overrides) options.overrides.push_back(std::move(flag));
  options.plugins = std::move(flags.plugins);
  return options;
}

std::vector<std::string> RecipeOptions::overrides() const {
  std::vector<std::string> out;
  std::copy_if(words_.begin(), words_.end(), std::back_inserter(out), is_override);
  return out;
}

recipe::LoadOptions RecipeOptions::device_overrides() const {
  recipe::LoadOptions options;
  const auto set = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) options.overrides.push_back("++" + key + "=" + value);
  };
  const bool cpu = core::fuzzy_key(device_) == "cpu";
  const std::string gpus = gpus_.empty() && !cpu ? nproc_ : gpus_;
  if (!gpus.empty()) {
    set("multi_gpu", "AUTO");
    set("num_gpus", gpus == "all" ? "-1" : gpus);
    set("dist.gpus_demanded", "true");  // a flag is a demand, a recipe's num_gpus a wish
  }
  set("device", device_.find(',') == std::string::npos ? device_ : "'" + device_ + "'");
  set("processes", processes_ > 0 ? std::to_string(processes_) : cpu ? nproc_ : "");
  set("training_hyperparams.precision", precision_);
  if (dist_timeout_ > 0) set("dist.timeout_seconds", std::to_string(dist_timeout_));
  if (no_exec_) train::forbid_exec();
  options.plugins.assign(plugins_.begin(), plugins_.end());
  return options;
}

}  // namespace sgtrain::app
