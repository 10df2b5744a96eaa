#include "recipe/variable_setup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "core/text.h"
#include "core/yaml_writer.h"
#include "recipe/interpolation.h"
#include "recipe/merge.h"

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

struct ShortKey {
  std::string name;
  std::vector<std::string> targets;  // dotted long keys
  bool ours = false;                 // removed after use; never filled from the long key
};

const std::vector<ShortKey>& plain_keys() {
  static const std::vector<ShortKey> keys = {
      {"lr", {"training_hyperparams.initial_lr"}},
      {"batch_size", {"dataset_params.train_dataloader_params.batch_size"}},
      {"val_batch_size", {"dataset_params.val_dataloader_params.batch_size"}},
      {"resume", {"training_hyperparams.resume"}},
      {"epochs", {"training_hyperparams.max_epochs"}},
      {"ema", {"training_hyperparams.ema"}},
      {"num_workers",
       {"dataset_params.train_dataloader_params.num_workers",
        "dataset_params.val_dataloader_params.num_workers"}},
      {"seed", {"training_hyperparams.seed"}, true},
      {"optimizer", {"training_hyperparams.optimizer"}, true},
      {"name", {"experiment_name"}, true},
      {"project", {"ckpt_root_dir"}, true},
  };
  return keys;
}

/// Other names of short keys.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAliases = {{
    {"batch", "batch_size"},
    {"workers", "num_workers"},
}};

bool is_null(const TreePtr& tree) {
  return !tree || tree->kind == Tree::Kind::kNull;
}

std::vector<std::string> path_of(const std::string& key) {
  return core::split(key, '.');
}

void put(const TreePtr& root, const std::string& key, const TreePtr& value) {
  std::vector<std::string> path = path_of(key);
  const std::string last = path.back();
  path.pop_back();
  const TreePtr leaf = Tree::make_map(value->mark);
  leaf->set(last, value);
  if (const TreePtr parent = value_at(root, path); parent && parent->is_map()) {
    parent->set(last, value->clone());  // replaces maps too: lr={default: 0.1, …}
  } else {
    core::Problems none;  // one new key cannot clash
    merge_at(root, path, *leaf, none);
  }
}

void mark_read(Tree& tree) {
  tree.was_read = true;
  for (const auto& [key, item] : tree.map) mark_read(*item);
}

/// The resolved value of a key; nullptr when absent or not resolvable (reported later).
TreePtr resolved(const TreePtr& root, const std::string& key) {
  core::Problems later;
  const TreePtr value = Interpolator(root->clone(), later).resolve_at(key);
  return value ? value->clone() : nullptr;
}

bool is_weights_file(const std::string& text) {
  for (const std::string_view ending : {".pth", ".pt", ".safetensors", ".ckpt"}) {
    if (text.ends_with(ending)) return true;
  }
  return text.find('/') != std::string::npos;
}

class ShortKeys {
 public:
  ShortKeys(const TreePtr& root, const std::set<std::string>& overridden,
            const std::set<std::string>& variables, core::Problems& problems)
      : root_(root), overridden_(overridden), variables_(variables), problems_(problems) {}

  void apply() {
    for (const auto& [alias, name] : kAliases) rename(std::string(alias), std::string(name));
    model();
    pretrained();
    for (const ShortKey& key : plain_keys()) plain(key);
    image_size();
    patience();
    mosaic();
    for (const ShortKey& key : plain_keys()) {
      if (const TreePtr value = root_->find(key.name); value && !key.ours) mark_read(*value);
    }
  }

 private:
  bool typed(const std::string& key) const { return overridden_.contains(key); }

  void problem(const TreePtr& at, const std::string& key, const std::string& text) {
    problems_.add(at ? at->mark.str() : std::string(), key, text);
  }

  /// One of our own short keys; nullptr when it is absent, null, or not meant as one: a map (such
  /// as a group of that name) or a variable of this recipe.
  TreePtr ours(const std::string& key) const {
    const TreePtr value = root_->find(key);
    if (!value || value->is_map() || variables_.contains(key) || is_variable(*root_, key))
      return nullptr;
    if (is_null(value)) {
      value->was_read = true;
      return nullptr;
    }
    return value;
  }

  void rename(const std::string& alias, const std::string& name) {
    const TreePtr value = ours(alias);
    if (!value) return;
    const TreePtr other = root_->find(name);
    const bool both = !is_null(other) && !core::equal(*value, *other);
    if (both && typed(alias) == typed(name)) {
      problem(value, alias,
              "is another name of '" + name + "', which is given too (" + other->mark.str() +
                  ") with another value");
    } else if (!both || typed(alias)) {  // the command line wins over a file
      root_->set(name, value);
      if (typed(alias)) renamed_.insert(name);
    }
    root_->erase(alias);
  }

  void plain(const ShortKey& key) {
    const TreePtr given = key.ours ? ours(key.name) : root_->find(key.name);
    if (!given) return;
    if (is_null(given)) return fill(key);
    const TreePtr value = resolved(root_, key.name);
    if (!value) return;  // its interpolation is wrong: reported when all are resolved
    const bool short_typed = typed(key.name) || renamed_.contains(key.name);
    bool used = false;
    for (const std::string& target : key.targets) {
      const TreePtr old = resolved(root_, target);
      if (typed(target) && old && !core::equal(*old, *value)) {
        if (short_typed) {
          problem(
              given, key.name,
              "contradicts " + target + "=" + core::write_yaml_inline(*old) + ": give one of them");
        } else {
          root_->set(key.name, old->clone());
        }
        continue;
      }
      // A recipe without that section (no val loader, say) does not get one from a file's short
      // key.
      const std::vector<std::string> path = path_of(target);
      if (path.size() == 1 || short_typed || value_at(root_, {path.begin(), path.end() - 1})) {
        put(root_, target, value);
        used = true;
      }
    }
    if (key.ours && used) root_->erase(key.name);
  }

  /// Shows the value of the long key; nothing when several long keys differ, so that the written
  /// recipe gives each its own again.
  void fill(const ShortKey& key) {
    const TreePtr value = resolved(root_, key.targets.front());
    if (!value) return;
    for (const std::string& target : key.targets) {
      const TreePtr other = resolved(root_, target);
      if (other && !core::equal(*other, *value)) return;
    }
    root_->set(key.name, value);
  }

  void model() {
    const TreePtr value = ours("model");
    if (!value) return;
    if (value->kind != Tree::Kind::kString) {
      problem(value, "model", "takes the name of an architecture or a weights file");
    } else {
      put(root_,
          is_weights_file(value->text) ? "checkpoint_params.checkpoint_path" : "architecture",
          value);
    }
    root_->erase("model");
  }

  void pretrained() {
    const TreePtr value = ours("pretrained");
    if (!value) return;
    if (value->kind == Tree::Kind::kBool && value->boolean) {
      problem(value, "pretrained",
              "takes the name of the weights or a file: pretrained=coco, pretrained=imagenet, "
              "pretrained=best.pth");
    } else if (value->kind == Tree::Kind::kString && is_weights_file(value->text)) {
      put(root_, "checkpoint_params.checkpoint_path", value);
    } else {
      put(root_, "checkpoint_params.pretrained_weights",
          value->kind == Tree::Kind::kString ? value : Tree::null(value->mark));
    }
    root_->erase("pretrained");
  }

  /// An early stop on the watched metric; one that the recipe has already gets the new patience.
  void patience() {
    const TreePtr value = ours("patience");
    if (!value) return;
    root_->erase("patience");
    if (value->kind != Tree::Kind::kInt || value->integer < 0) {
      return problem(value, "patience", "takes a number of epochs (0: no early stop)");
    }
    TreePtr callbacks = value_at(root_, {"training_hyperparams", "phase_callbacks"});
    if (!callbacks || !callbacks->is_list()) {
      callbacks = Tree::make_list(value->mark);
      put(root_, "training_hyperparams.phase_callbacks", callbacks);
      callbacks = value_at(root_, {"training_hyperparams", "phase_callbacks"});
    }
    const auto early_stop =
        std::find_if(callbacks->list.begin(), callbacks->list.end(), [](const TreePtr& item) {
          return item->is_map() && item->map.size() == 1 &&
                 core::fuzzy_key(item->map.front().first) == "earlystop";
        });
    if (value->integer == 0) {
      if (early_stop != callbacks->list.end()) callbacks->list.erase(early_stop);
      return;
    }
    if (early_stop != callbacks->list.end() && (*early_stop)->map.front().second->is_map()) {
      (*early_stop)->map.front().second->set("patience", value);
      return;
    }
    const TreePtr metric = resolved(root_, "training_hyperparams.metric_to_watch");
    const TreePtr greater =
        resolved(root_, "training_hyperparams.greater_metric_to_watch_is_better");
    const bool maximize = is_null(greater) || greater->boolean;
    const TreePtr params = Tree::make_map(value->mark);
    params->set("phase", Tree::of("VALIDATION_EPOCH_END", value->mark));
    params->set("monitor", metric ? metric : Tree::of("Accuracy", value->mark));
    params->set("mode", Tree::of(maximize ? "max" : "min", value->mark));
    params->set("patience", value);
    const TreePtr callback = Tree::make_map(value->mark);
    callback->set("EarlyStop", params);
    callbacks->list.push_back(callback);
  }

  /// The probability of mosaic in training; a list without one gets it at the front, and the affine
  /// transform behind it cuts the canvas back to the input size.
  void mosaic() {
    const TreePtr value = ours("mosaic");
    if (!value) return;
    root_->erase("mosaic");
    const bool whole = value->kind == Tree::Kind::kInt;
    const double prob = whole ? static_cast<double>(value->integer) : value->real;
    if ((!whole && value->kind != Tree::Kind::kFloat) || !(prob >= 0.0 && prob <= 1.0))
      return problem(value, "mosaic", "takes a probability from 0 to 1");
    const TreePtr transforms =
        value_at(root_, {"dataset_params", "train_dataset_params", "transforms"});
    const TreePtr size = resolved(root_, "dataset_params.train_dataset_params.input_dim");
    const auto named = [&](const char* name) -> TreePtr {
      for (const TreePtr& item : transforms->list) {
        if (item->is_map() && item->map.size() == 1 &&
            core::fuzzy_key(item->map.front().first) == name)
          return item->map.front().second;
      }
      return nullptr;
    };
    if (!transforms || !transforms->is_list() || is_null(size))
      return problem(value, "mosaic", "needs train_dataset_params with input_dim and transforms");
    if (const TreePtr there = named("detectionmosaic"); there && there->is_map())
      return there->set("prob", Tree::of(prob, value->mark));
    if (prob == 0.0) return;
    const TreePtr params = Tree::make_map(value->mark), item = Tree::make_map(value->mark);
    params->set("input_dim", size);
    params->set("prob", Tree::of(prob, value->mark));
    item->set("DetectionMosaic", params);
    if (const TreePtr affine = named("detectionrandomaffine");
        affine && affine->is_map() && is_null(affine->find("target_size")))
      affine->set("target_size", size->clone());
    transforms->list.insert(transforms->list.begin(), item);
  }

  // ------------------------------------------------------------- image size

  void image_size() {
    const TreePtr value = ours("imgsz");
    if (!value) return;
    root_->erase("imgsz");
    std::array<std::int64_t, 2> wanted{};  // height, width
    if (value->kind == Tree::Kind::kInt) {
      wanted = {value->integer, value->integer};
    } else if (value->is_list() && value->list.size() == 2 &&
               value->list[0]->kind == Tree::Kind::kInt &&
               value->list[1]->kind == Tree::Kind::kInt) {
      wanted = {value->list[0]->integer, value->list[1]->integer};
    } else {
      return problem(value, "imgsz", "takes a size in pixels: imgsz=640 or imgsz=[height,width]");
    }
    if (std::min(wanted[0], wanted[1]) < 1 || std::max(wanted[0], wanted[1]) > 16384) {
      return problem(value, "imgsz", "must be in [1, 16384] pixels");
    }
    const TreePtr data = resolved(root_, "dataset_params");
    const std::int64_t base = data ? base_size(*data) : 0;
    if (base == 0) {
      return problem(value, "imgsz",
                     "this recipe names no image size in dataset_params.train_dataset_params, "
                     "so set the sizes of its transforms");
    }
    const TreePtr raw = root_->find("dataset_params");
    if (const TreePtr size = raw->find("image_size")) scale_value(size, base, wanted);
    for (const char* name : {"train_dataset_params", "val_dataset_params", "test_dataset_params"}) {
      if (const TreePtr part = raw->find(name)) scale_below(*part, base, wanted);
    }
  }

  static bool is_size_key(const std::string& key) {
    static const std::set<std::string> keys = {
        "input_dim", "image_size", "output_size", "output_shape", "target_size",
        "size",      "crop_size",  "height",      "width",        "min_height",
        "min_width", "max_height", "max_width"};
    return keys.contains(key);
  }

  /// The size the recipe trains at: what the train set or its last resizing transform says.
  static std::int64_t base_size(const Tree& data) {
    const auto number = [](const Tree& tree) -> std::int64_t {
      if (tree.kind == Tree::Kind::kInt) return tree.integer;
      std::int64_t most = 0;
      for (const TreePtr& item : tree.list)
        most = std::max(most, item->kind == Tree::Kind::kInt ? item->integer : 0);
      return most;
    };
    if (const TreePtr size = data.find("image_size"); size && number(*size) > 0)
      return number(*size);
    const TreePtr train = data.find("train_dataset_params");
    if (!train || !train->is_map()) return 0;
    if (const TreePtr size = train->find("input_dim"); size && number(*size) > 0)
      return number(*size);
    std::int64_t last = 0;
    const std::function<void(const Tree&)> walk = [&](const Tree& tree) {
      for (const auto& [key, item] : tree.map) {
        if (is_size_key(key) && number(*item) > 1) last = number(*item);
        walk(*item);
      }
      for (const TreePtr& item : tree.list) walk(*item);
    };
    walk(*train);
    return last;
  }

  /// The training size becomes the wanted one; sizes within a few pixels keep their distance (636 +
  /// 4 pixels of border), others their ratio (resize to 256, crop 224).
  static std::int64_t scaled(std::int64_t size, std::int64_t base, std::int64_t wanted) {
    constexpr std::int64_t kBorder = 8;
    if (size <= 1) return size;
    if (std::abs(size - base) <= kBorder) return std::max<std::int64_t>(1, wanted + size - base);
    return std::max<std::int64_t>(
        1, std::llround(static_cast<double>(size) * static_cast<double>(wanted) /
                        static_cast<double>(base)));
  }

  static void scale(Tree& tree, std::int64_t base, const std::array<std::int64_t, 2>& wanted) {
    if (tree.kind == Tree::Kind::kInt) {
      if (wanted[0] == wanted[1]) {
        tree = *Tree::of(scaled(tree.integer, base, wanted[0]), tree.mark);
      } else if (tree.integer > 1) {
        const core::Mark mark = tree.mark;
        const std::int64_t size = tree.integer;
        tree = *Tree::make_list(mark);
        for (const std::int64_t side : wanted)
          tree.list.push_back(Tree::of(scaled(size, base, side), mark));
      }
    } else if (tree.is_list() && tree.list.size() == 2) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (tree.list[i]->kind != Tree::Kind::kInt) continue;
        tree.list[i] = Tree::of(scaled(tree.list[i]->integer, base, wanted[i]), tree.list[i]->mark);
      }
    }
  }

  /// A size, or what its interpolation (`${image_size}`) names; each value once.
  void scale_value(const TreePtr& value, std::int64_t base,
                   const std::array<std::int64_t, 2>& wanted) {
    TreePtr at = value;
    for (int steps = 0; steps < 8 && at && at->kind == Tree::Kind::kString; ++steps) {
      const std::string& text = at->text;
      if (!text.starts_with("${") || !text.ends_with("}")) return;
      at = value_at(root_, path_of(text.substr(2, text.size() - 3)));
    }
    if (at && scaled_.insert(at.get()).second) scale(*at, base, wanted);
  }

  void scale_below(const Tree& tree, std::int64_t base, const std::array<std::int64_t, 2>& wanted) {
    for (const auto& [key, item] : tree.map) {
      const bool one_side = key.ends_with("height") || key.ends_with("width");
      const std::int64_t side = key.ends_with("width") ? wanted[1] : wanted[0];
      if (one_side && item->kind == Tree::Kind::kInt) {
        *item = *Tree::of(scaled(item->integer, base, side), item->mark);
      } else if (is_size_key(key)) {
        scale_value(item, base, wanted);
      } else {
        scale_below(*item, base, wanted);
      }
    }
    for (const TreePtr& item : tree.list) scale_below(*item, base, wanted);
  }

  const TreePtr& root_;
  const std::set<std::string>& overridden_;
  const std::set<std::string>& variables_;
  core::Problems& problems_;
  std::set<const Tree*> scaled_;   // sizes that have the wanted image size already
  std::set<std::string> renamed_;  // short keys given on the command line by another name
};

}  // namespace

std::span<const std::string> free_keys() {
  static const std::vector<std::string> keys = {"lr",
                                                "batch_size",
                                                "val_batch_size",
                                                "ema",
                                                "epochs",
                                                "resume",
                                                "num_workers",
                                                "data",
                                                "model",
                                                "imgsz",
                                                "batch",
                                                "workers",
                                                "seed",
                                                "patience",
                                                "freeze",
                                                "cache",
                                                "optimizer",
                                                "pretrained",
                                                "fraction",
                                                "mosaic",
                                                "close_mosaic",
                                                "name",
                                                "project",
                                                "device",
                                                "processes",
                                                "plugins",
                                                "dist",
                                                "lr_scaling",
                                                "multi_gpu",
                                                "num_gpus",
                                                "experiment_name",
                                                "ckpt_root_dir",
                                                "train_dataloader",
                                                "val_dataloader",
                                                "architecture"};
  return keys;
}

void expand_model(std::vector<Override>& overrides, const SearchPath& files) {
  if (files.group_exists("model")) return;  // then it is that group's choice
  std::vector<Override> more;
  for (const Override& given : overrides) {
    if (given.key != "model" || !given.value || given.value->kind != Tree::Kind::kString) continue;
    const std::string file = given.value->text + "_arch_params";
    const auto options = files.options("arch_params");
    if (std::find(options.begin(), options.end(), file) == options.end()) continue;
    Override choice;
    choice.text = given.text;
    choice.key = "arch_params";
    choice.value = Tree::of(file, command_line_mark());
    choice.optional = true;
    more.push_back(std::move(choice));
  }
  // First, so that an explicit choice of the group wins.
  overrides.insert(overrides.begin(), more.begin(), more.end());
}

void apply_short_keys(const TreePtr& root, const std::set<std::string>& overridden,
                      const std::set<std::string>& variables, core::Problems& problems) {
  ShortKeys(root, overridden, variables, problems).apply();
}

}  // namespace sgtrain::recipe
