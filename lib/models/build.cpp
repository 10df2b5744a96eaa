#include "models/build.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "core/error.h"
#include "tensor/checkpoint.h"

namespace sgtrain::models {
namespace fs = std::filesystem;
namespace {

/// Ends-with at a dot, so that wrapper prefixes do not hide the head.
bool is_entry(const std::string& name, const std::string& entry) {
  return name == entry || name.ends_with("." + entry);
}

fs::path find_checkpoint(const std::string& given, const fs::path& base) {
  std::vector<fs::path> tried;
  const fs::path path(given);
  if (path.is_relative() && !base.empty()) tried.push_back(fs::absolute(base / path));
  tried.push_back(fs::absolute(path));
  for (const fs::path& candidate : tried) {
    if (fs::is_regular_file(candidate)) return candidate;
    if (!fs::is_directory(candidate)) continue;
    for (const char* name : {"ckpt_best.pth", "ckpt_latest.pth"}) {
      if (fs::is_regular_file(candidate / name)) return candidate / name;
    }
  }
  std::string text;
  for (const fs::path& candidate : tried) text += "\n  " + candidate.string();
  throw core::InputError("no checkpoint at" + text, given,
                         "give a .pth or .safetensors file, or a run folder with ckpt_best.pth");
}

/// Entries below `backbone.`, without that prefix; the whole file when it has none.
tensor::StateDict backbone_entries(const tensor::StateDict& state) {
  constexpr std::string_view kPrefix = "backbone.";
  tensor::StateDict out;
  for (const auto& [name, value] : state) {
    const auto at = name.find(kPrefix);
    if (at == 0 || (at != std::string::npos && name[at - 1] == '.'))
      out.emplace_back(name.substr(at + kPrefix.size()), value);
  }
  return out.empty() ? state : out;
}

/// Moves the head of a model to another class count and back.
LoadReport load_with_classes(Model& model, int classes, const tensor::StateDict& state,
                             StrictLoad strict, const std::string& where) {
  const int wanted = model.num_classes();
  if (classes != wanted) model.replace_head(classes);
  const LoadReport report = load_state(model, state, strict, where);
  if (classes != wanted) model.replace_head(wanted);
  return report;
}

}  // namespace

std::optional<int> classes_of(const Model& model, const tensor::StateDict& state) {
  for (const std::string& entry : model.head_parameters()) {
    for (const auto& [name, value] : state) {
      if (is_entry(name, entry) && value.dim() > 0) return static_cast<int>(value.size(0));
    }
  }
  return std::nullopt;
}

LoadReport load_model_state(Model& model, const tensor::StateDict& state, StrictLoad strict,
                            const std::string& where, bool allow_new_head) {
  const int classes = classes_of(model, state).value_or(model.num_classes());
  if (classes != model.num_classes() && !allow_new_head) {
    throw core::InputError(
        fmt::format("the checkpoint's head has {} classes, the model {}", classes,
                    model.num_classes()),
        where,
        "set num_classes of arch_params to that of the checkpoint; its class names are stored in "
        "the "
        "file under processing_params.class_names (`sgtrain inspect` shows them)");
  }
  return load_with_classes(model, classes, state, strict, where);
}

fs::path find_pretrained(const std::string& architecture, const std::string& data_set) {
  const std::string file = architecture + "_" + data_set + ".pth";
  std::vector<fs::path> folders;
  const auto add = [&](const char* variable, const char* below) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') folders.push_back(fs::path(value) / below);
  };
  add("SGTRAIN_CACHE", "weights");
  add("XDG_CACHE_HOME", "sgtrain/weights");
  add("HOME", ".cache/sgtrain/weights");
  add("TORCH_HOME", "hub/checkpoints");
  add("HOME", ".cache/torch/hub/checkpoints");
  std::string tried;
  for (const fs::path& folder : folders) {
    if (fs::is_regular_file(folder / file)) return folder / file;
    tried += "\n  " + (folder / file).string();
  }
  throw core::InputError(
      "no weights '" + data_set + "' of " + architecture + " on this machine; looked for" + tried,
      "checkpoint_params.pretrained_weights",
      "download the file once and put it there, give a file of yours as checkpoint_path "
      "(pretrained=FILE.pth), or start from random weights with pretrained=false");
}

fs::path weights_file(const std::string& architecture, const WeightsRequest& request) {
  return request.checkpoint_path
             ? find_checkpoint(*request.checkpoint_path, request.base_dir)
             : find_pretrained(architecture, request.pretrained_weights.value());
}

std::string load_weights(Model& model, const std::string& architecture,
                         const WeightsRequest& request) {
  if (request.checkpoint_path && request.pretrained_weights) {
    throw core::InputError("checkpoint_path and pretrained_weights are both given",
                           "checkpoint_params", "keep one of them");
  }
  if (!request.checkpoint_path && !request.pretrained_weights) {
    if (!request.backbone_only) return {};
    throw core::InputError("load_backbone needs a checkpoint_path", "checkpoint_params");
  }
  const fs::path path = weights_file(architecture, request);
  const tensor::Weights weights = tensor::read_weights(path);
  std::string text = "weights of " + path.string();
  if (!weights.source.empty()) text += " (" + weights.source + ")";
  if (request.backbone_only) {
    tensor::Module* backbone = model.child("backbone");
    if (backbone == nullptr) {
      throw core::InputError(architecture + " has no part called backbone",
                             "checkpoint_params.load_backbone", "leave load_backbone out");
    }
    return text + ", backbone only: " +
           load_state(*backbone, backbone_entries(weights.tensors), request.strict, path.string())
               .summary();
  }
  const int own = model.num_classes();
  const int classes =
      request.checkpoint_num_classes.value_or(classes_of(model, weights.tensors).value_or(own));
  text +=
      ": " +
      load_with_classes(model, classes, weights.tensors, request.strict, path.string()).summary();
  if (classes != own) {
    text +=
        fmt::format("; its head has {} classes, this run {}: a new head was drawn", classes, own);
  }
  return text;
}

}  // namespace sgtrain::models
