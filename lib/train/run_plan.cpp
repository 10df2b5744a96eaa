#include "train/run_plan.h"

#include <algorithm>

#include "core/error.h"
#include "core/plugin.h"
#include "core/text.h"
#include "data/paths.h"
#include "data/read_params.h"
#include "recipe/variable_setup.h"
#include "train/dataloader_names.h"
#include "train/exec_policy.h"
#include "train/parse_at.h"
#include "train/run_dir.h"

namespace sgtrain::train {
namespace {

/// Top-level keys of the reference that this program has no use for.
constexpr const char* kInertKeys[] = {"pre_launch_callbacks_list",
                                      "quantization_params",
                                      "conversion_params",
                                      "calibration_dataloader_params",
                                      "anchors",
                                      "hydra",
                                      "_convert_",
                                      "dataset_name",
                                      "result_path",
                                      "experiment_suffix"};

std::vector<std::string> strings_of(core::Node node) {
  return node.is_null() ? std::vector<std::string>{} : node.as<std::vector<std::string>>();
}

bool is_given(const core::TreePtr& value) {
  return value && value->kind != core::Tree::Kind::kNull &&
         value->kind != core::Tree::Kind::kMissing;
}

/// Number of classes of a section `key`: its own, that of arch_params (student and teacher), else
/// of dataset_params (num_classes, class_names).
void complete_num_classes(core::Tree& root, const char* key) {
  const auto arch = root.find(key);
  const auto shared = root.find("arch_params");
  const auto data = root.find("dataset_params");
  if (!arch || !arch->is_map() || is_given(arch->find("num_classes"))) return;
  if (shared && shared->is_map() && is_given(shared->find("num_classes"))) {
    arch->set("num_classes", shared->find("num_classes")->clone());
    return;
  }
  if (!data || !data->is_map()) return;
  if (const auto count = data->find("num_classes");
      count && count->kind == core::Tree::Kind::kInt) {
    arch->set("num_classes", count->clone());
  } else if (const auto names = data->find("class_names"); names && names->is_list()) {
    arch->set("num_classes",
              core::Tree::of(static_cast<std::int64_t>(names->list.size()), names->mark));
  }
}

/// `train_dataset_params` … of the section; `shared` for test sets that share one.
DataPlan plan_data(core::Node& params, const std::string& name, const std::string& dataset_key,
                   const std::string& loader_key, std::optional<std::string> loader_name) {
  DataPlan plan;
  plan.name = name;
  core::Node dataset = params.child(dataset_key);
  core::Node loader = params.child(loader_key);
  if (!loader.is_map())
    params.problem(loader_key, "required, but not given (batch_size, num_workers …)");
  plan.loader = loader::LoaderParams::from(loader);
  std::string class_name;
  if (auto own = loader.find<std::string>("dataset")) {
    class_name = *own;
  } else if (loader_name) {
    const auto known = dataset_of_loader(*loader_name);
    if (known) {
      class_name = *known;
    } else {
      params.problem("unknown data loader '" + *loader_name + "'" +
                     core::did_you_mean(*loader_name, loader_names()) +
                     "; or name a data set class as " + loader_key + ".dataset");
    }
  } else {
    params.problem(
        loader_key,
        "says no data set: give `dataset: ClassName` here, or a loader's name at the top level");
  }
  if (!class_name.empty()) {
    const bool own = loader.has("dataset");
    plan.dataset = parse_at(own ? loader : params, own ? "dataset" : dataset_key,
                            {.name = class_name, .params = dataset}, data::Dataset::registry());
    if (!plan.dataset) return plan;
  }
  if (dataset.has("target_transform"))
    dataset.problem("target_transform", "no target transform is known; leave it null");
  plan.input_dim = data::find_size(dataset, "input_dim");
  plan.transforms = data::Pipeline::Params::from(dataset);
  return plan;
}

WeightsPlan read_weights(core::Node params) {
  WeightsPlan plan;
  if (params.is_null()) return plan;
  plan.checkpoint_path = params.find<std::string>("checkpoint_path");
  if (auto external = params.find<std::string>("external_checkpoint_path"))
    plan.checkpoint_path = external;
  plan.pretrained_weights = params.find<std::string>("pretrained_weights");
  plan.load_backbone = params.get_or("load_backbone", false);
  params.get_or("load_checkpoint", false);
  params.find<std::string>("source_ckpt_folder_name");
  params.get_or("load_weights_only", false);
  params.get_or("load_ema_as_net", false);
  plan.checkpoint_num_classes = params.find<int>("checkpoint_num_classes");
  if (plan.checkpoint_num_classes.value_or(1) < 1)
    params.problem("checkpoint_num_classes", "must be at least 1");
  if (params.has("strict_load")) {
    core::Node strict = params.child("strict_load");
    std::string text;
    if (strict.is_map()) {  // _target_: …StrictLoad, value: no_key_matching
      strict.child("_target_").read_all();
      text = strict.get<std::string>("value");
    } else {
      text = strict.as<std::string>();
    }
    static const std::map<std::string, std::string> kNames{{"off", "off"},
                                                           {"false", "off"},
                                                           {"on", "on"},
                                                           {"true", "on"},
                                                           {"nokeymatching", "no_key_matching"},
                                                           {"keymatching", "key_matching"}};
    const auto found = kNames.find(core::fuzzy_key(text));
    if (found == kNames.end()) {
      strict.problem("must be off, on, no_key_matching or key_matching, found '" + text + "'");
    } else {
      plan.strict_load = found->second;
    }
  }
  if (plan.checkpoint_path && plan.pretrained_weights) {
    params.problem("checkpoint_path and pretrained_weights exclude each other");
  }
  return plan;
}

/// Keys of `arch_params` that the architecture did not read, but another one would: left from that
/// one when `architecture` was overridden.
void explain_foreign_keys(core::Node& arch, const std::string& architecture) {
  const auto& registry = models::Model::registry();
  for (const auto& [key, value] : arch.tree()->map) {
    if (value->was_read || !core::nearest(key, arch.tree()->asked, 1).empty()) continue;
    std::vector<std::string> owners;
    for (const auto& entry : registry.entries()) {
      const auto docs = models::Model::Registry::describe(entry);
      const bool has = std::any_of(docs.begin(), docs.end(),
                                   [&](const core::KeyDoc& doc) { return doc.key == key; });
      if (has) owners.push_back(entry.names.front());
    }
    if (owners.empty()) continue;
    std::sort(owners.begin(), owners.end());
    arch.problem(key, "belongs to another architecture (" + core::join(owners) + "), " +
                          architecture + " does not have it: drop it with ~" + arch.path() + "." +
                          key);
    core::Node(value, arch.problems()).read_all();
  }
}

/// @param role "", "student_" or "teacher_": begins the keys of the architecture and its parameters
models::Model::Registry::MakerType plan_network(core::Node& root, const std::string& name,
                                                const std::string& role) {
  if (name.empty()) return {};  // reported already
  const std::string key = role + "arch_params";
  core::Node arch = root.child(key);
  core::Node params =
      arch.is_map() ? arch : core::Node(core::Tree::make_map(), root.problems(), key);
  auto make = parse_at(root, role + "architecture", {.name = name, .params = params},
                       models::Model::registry());
  if (!make) arch.read_all();
  explain_foreign_keys(params, name);
  return make;
}

std::optional<models::NormalizationAdapterParams> read_adapter(core::Node& arch, const char* key) {
  auto adapter = arch.find_component(key);
  if (!adapter) return std::nullopt;
  if (core::fuzzy_key(adapter->name) != "normalizationadapter") {
    arch.problem(key, "only NormalizationAdapter is known");
    adapter->params.read_all();
    return std::nullopt;
  }
  return models::NormalizationAdapterParams::from(adapter->params);
}

/// Student and teacher with parameters and weights of their own; `arch_params` are the pair's.
void plan_distillation(core::Node& root, RunPlan& plan) {
  DistillationPlan pair;
  pair.teacher_architecture = root.get<std::string>("teacher_architecture");
  pair.teacher = plan_network(root, pair.teacher_architecture, "teacher_");
  pair.teacher_weights = read_weights(root.child("teacher_checkpoint_params"));
  if (!pair.teacher_weights.checkpoint_path && !pair.teacher_weights.pretrained_weights) {
    root.problem("teacher_checkpoint_params",
                 "the teacher knows nothing: give its checkpoint_path or pretrained_weights");
  }
  pair.params.run_teacher_on_eval = root.get_or("run_teacher_on_eval", false);
  core::Node arch = root.child("arch_params");
  if (arch.is_map()) {
    pair.params.teacher_input_adapter = read_adapter(arch, "teacher_input_adapter");
    pair.params.student_input_adapter = read_adapter(arch, "student_input_adapter");
    arch.find<int>("num_classes");  // the default of both
  }
  core::Node weights = root.child("checkpoint_params");  // the reference reads nothing of it
  if (weights.is_map()) {
    for (const char* key : {"checkpoint_path", "external_checkpoint_path", "pretrained_weights"}) {
      if (weights.find<std::string>(key))
        weights.problem(key, "belongs to student_checkpoint_params or teacher_checkpoint_params");
    }
    weights.read_all();
  }
  plan.distillation = std::move(pair);
}

void plan_model(core::Node& root, RunPlan& plan) {
  plan.architecture = root.get<std::string>("architecture");
  const bool pair = core::fuzzy_key(plan.architecture) == "kdmodule";
  if (pair) {
    plan_distillation(root, plan);
    plan.architecture = root.get<std::string>("student_architecture");
  }
  const char* arch_key = pair ? "student_arch_params" : "arch_params";
  core::Node arch = root.child(arch_key);
  plan.arch_params = arch.is_map() ? arch.tree()->clone() : core::Tree::make_map();
  plan.num_classes = arch.get_or("num_classes", 0);
  plan.model = plan_network(root, plan.architecture, pair ? "student_" : "");
  plan.weights = read_weights(root.child(pair ? "student_checkpoint_params" : "checkpoint_params"));
}

void plan_tests(core::Node& root, core::Node& params, RunPlan& plan) {
  if (!root.has("test_dataloaders")) return;
  core::Node tests = root.child("test_dataloaders");
  for (const std::string& name : tests.keys()) {
    core::Node test_params = params.child("test_dataset_params");
    core::Node test_loader = params.child("test_dataloader_params");
    // Per test set, or one shared by all.
    const bool own = test_params.is_map() && test_params.has(name);
    auto section = core::Tree::make_map(test_params.tree()->mark);
    section->set("dataset", own ? test_params.child(name).tree() : test_params.tree());
    section->set("loader", test_loader.is_map() && test_loader.has(name)
                               ? test_loader.child(name).tree()
                               : test_loader.tree());
    core::Node node(section, root.problems(), "dataset_params.test");
    plan.tests.push_back(plan_data(node, name, "dataset", "loader", tests.find<std::string>(name)));
  }
}

ExtraPlan read_extra(core::Node& root, const recipe::Recipe& recipe) {
  ExtraPlan plan;
  const auto ours = [&](const char* key) {
    return root.has(key) && !recipe.variables.contains(key) && !root.tree()->find(key)->is_map();
  };
  if (ours("freeze")) {
    core::Node freeze = root.child("freeze");
    if (freeze.is_number()) {
      plan.freeze_layers = root.get<int>("freeze").min(0);
    } else if (freeze.is_string()) {
      plan.freeze = {freeze.as<std::string>()};
    } else {
      plan.freeze = freeze.as<std::vector<std::string>>();
    }
  }
  if (ours("cache")) {
    core::Node cache = root.child("cache");
    const bool known = cache.kind() == core::Tree::Kind::kBool ||
                       (cache.is_string() && core::fuzzy_key(cache.tree()->text) == "ram");
    if (!known) cache.problem("takes ram (or True): decoded pictures stay in memory");
    plan.cache = cache.is_string() || cache.tree()->boolean;
  }
  if (ours("fraction")) {
    plan.fraction = root.get<double>("fraction").in(0.0, 1.0);
    if (plan.fraction == 0.0) root.problem("fraction", "0 leaves nothing to train on");
  }
  if (ours("close_mosaic")) plan.close_mosaic = root.get<int>("close_mosaic").min(0);
  return plan;
}

/// Keys that interpolations read count as read, and so do the maps they stand in.
void mark_variables(const recipe::Recipe& recipe) {
  for (const std::string& dotted : recipe.variables) {
    for (std::size_t end = dotted.find('.'); end != std::string::npos;
         end = dotted.find('.', end + 1)) {
      if (const auto parent = recipe.tree->find_path(dotted.substr(0, end)))
        parent->was_read = true;
    }
    if (const auto value = recipe.tree->find_path(dotted))
      core::Node(value, std::make_shared<core::Problems>()).read_all();
  }
}

/// Adds --plugin's files to the recipe's list, so that the resolved recipe names them.
void add_plugins(core::Tree& root, const std::vector<std::filesystem::path>& files) {
  if (files.empty()) return;
  core::TreePtr list = root.find("plugins");
  if (!list || !list->is_list()) list = core::Tree::make_list();
  for (const auto& file : files)
    list->list.push_back(core::Tree::of(std::filesystem::absolute(file).string()));
  root.set("plugins", list);
}

/// `plugins`: opened before any component is looked up by name.
void open_plugins(core::Node& root, const std::filesystem::path& recipe_dir) {
  if (!root.has("plugins")) return;
  core::Node plugins = root.child("plugins");
  if (!check_exec(plugins, "a plug-in")) return plugins.read_all();
  for (const std::string& name : strings_of(plugins)) {
    try {
      core::open_plugin(data::Paths(recipe_dir).find(name, "plug-in"));
    } catch (const core::InputError& error) {
      root.problem("plugins", error.what());
    }
  }
}

}  // namespace

RunPlan plan_run(const recipe::LoadOptions& options, const Needs& needs) {
  const auto problems = std::make_shared<core::Problems>();
  recipe::LoadOptions load = options;
  load.problems = problems;
  const recipe::Recipe recipe = recipe::load(load);
  mark_variables(recipe);
  for (const char* arch : {"arch_params", "student_arch_params", "teacher_arch_params"})
    complete_num_classes(*recipe.tree, arch);
  add_plugins(*recipe.tree, options.plugins);
  core::Node root(recipe.tree, problems);
  RunPlan plan;
  plan.file = recipe.file;
  // Ours: where relative data paths start. Written into the resolved recipe, which lies elsewhere.
  plan.recipe_dir =
      root.get_or("recipe_dir",
                  std::filesystem::absolute(recipe.file).parent_path().string().c_str())
          .value();
  recipe.tree->set("recipe_dir", core::Tree::of(plan.recipe_dir.string(), {recipe.tree->mark}));
  root.child("recipe_dir");
  plan.resolved_recipe = recipe::to_yaml(recipe);
  open_plugins(root, plan.recipe_dir);
  plan.experiment_name = root.get_or("experiment_name", recipe.file.stem().string().c_str());
  plan.ckpt_root_dir = root.get_or("ckpt_root_dir", "checkpoints").value();
  plan_model(root, plan);
  plan.launch = LaunchPlan::from(root);
  for (const char* key : kInertKeys) {
    if (root.has(key)) root.child(key).read_all();
  }
  // SuperGradients' short keys have acted and stay visible; ours are gone or belong to the recipe.
  for (const char* key :
       {"lr", "batch_size", "val_batch_size", "ema", "epochs", "resume", "num_workers"}) {
    if (root.has(key)) root.child(key).read_all();
  }
  plan.extra = read_extra(root, recipe);

  core::Node training = root.child("training_hyperparams");
  if (!training.is_map()) root.problem("training_hyperparams", "required, but not given");
  plan.training = TrainingParams::from(training);

  core::Node data = root.child("dataset_params");
  if (!data.is_map()) root.problem("dataset_params", "required, but not given");
  plan.class_names = strings_of(data.child("class_names"));
  if (data.find<int>("num_classes").value_or(1) < 1)
    data.problem("num_classes", "must be at least 1");
  const auto train_name = root.find<std::string>("train_dataloader");
  const auto valid_name = root.find<std::string>("val_dataloader");
  if (needs.training) {
    plan.train =
        plan_data(data, "train", "train_dataset_params", "train_dataloader_params", train_name);
  } else {
    data.child("train_dataset_params").read_all();
    data.child("train_dataloader_params").read_all();
  }
  if (needs.validation) {
    plan.valid = plan_data(data, "val", "val_dataset_params", "val_dataloader_params", valid_name);
  } else {
    data.child("val_dataset_params").read_all();
    data.child("val_dataloader_params").read_all();
  }
  plan_tests(root, data, plan);
  if (needs.tests && plan.tests.empty()) {
    root.problem("test_dataloaders",
                 "names no test set; give {name: loader}, and dataset_params.test_dataset_params "
                 "and test_dataloader_params");
  }
  data.child("_convert_").read_all();

  root.report_unread();
  problems->throw_if_any(recipe.file.string());
  check_name("experiment_name", plan.experiment_name);
  check_name("training_hyperparams.ckpt_name", plan.training.ckpt_name);
  check_name("training_hyperparams.ckpt_best_name", plan.training.ckpt_best_name);
  plan.notes = recipe.notes;
  plan.notes.insert(plan.notes.end(), problems->notes().begin(), problems->notes().end());
  return plan;
}

}  // namespace sgtrain::train
