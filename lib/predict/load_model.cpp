#include "predict/load_model.h"

#include "core/error.h"
#include "core/log.h"
#include "core/yaml.h"
#include "models/build.h"
#include "tensor/checkpoint.h"
#include "tensor/checkpoint_file.h"
#include "tensor/safetensors.h"
#include "tensor/value_tree.h"

namespace sgtrain::predict {
namespace fs = std::filesystem;
namespace {

using core::Tree;
using tensor::Value;

/// Everything but the weights that a file says about its model.
struct Description {
  Value processing_params, sgtrain;
};

Description describe(const fs::path& file) {
  if (tensor::is_safetensors(file)) return {};
  const Value content = tensor::read_pth(file);
  Description d;
  if (const auto* own = content.find("sgtrain")) d.sgtrain = *own;
  if (const auto* params = content.find("processing_params"))
    d.processing_params = tensor::plain_objects(*params);
  return d;
}

std::vector<std::string> texts(const Value* value) {
  std::vector<std::string> out;
  if (value == nullptr || !value->is_sequence()) return out;
  for (const Value& item : value->items()) out.push_back(item.as_string());
  return out;
}

std::string text_or(const Value& dict, std::string_view key, std::string fallback) {
  const auto* value = dict.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : fallback;
}

/// Builds the architecture with `classes` outputs.
std::unique_ptr<models::Model> build(const std::string& architecture,
                                     const core::TreePtr& arch_params, int classes) {
  auto params = arch_params ? arch_params->clone() : Tree::make_map();
  params->set("num_classes", Tree::of(static_cast<std::int64_t>(classes)));
  const auto problems = std::make_shared<core::Problems>();
  core::Node node(params, problems, "arch_params");
  const auto make = models::Model::registry().parse({.name = architecture, .params = node});
  problems->throw_if_any("the model");
  return make();
}

/// `arch_params` of the recipe inside the checkpoint were checked when it was trained; the model
/// must be built from them again (width, input channels, …).
core::TreePtr arch_params_of(const Description& d, const std::string& where) {
  const auto* params = d.sgtrain.find("arch_params");
  return params == nullptr ? nullptr : tensor::tree_from_value(*params, where);
}

core::TreePtr numbers(const std::vector<double>& values, double fallback) {
  auto list = Tree::make_list();
  for (const double value : values.empty() ? std::vector<double>{fallback} : values)
    list->list.push_back(Tree::of(value));
  return list;
}

data::Preprocessing read_preprocessing(const Description& d, const ModelRequest& request,
                                       models::Model& model, const std::string& where) {
  const auto* processor = d.sgtrain.find("image_processor");  // exact, where it is ours
  if (processor == nullptr || processor->is_none())
    processor = d.processing_params.find("image_processor");
  if (processor != nullptr && !processor->is_none()) {
    if (request.image_size || !request.mean.empty() || !request.std.empty()) {
      core::log::warning(
          "--imgsz, --mean and --std are for files that do not say how pictures are prepared; {} "
          "does, so they are not used",
          where);
    }
    auto tree = tensor::tree_from_value(*processor, where);
    if (!tree->is_list()) {
      auto list = Tree::make_list();
      list->list.push_back(tree);
      tree = list;
    }
    const auto problems = std::make_shared<core::Problems>();
    core::Node node(tree, problems, "processing_params.image_processor");
    auto preprocessing = data::Preprocessing::from(node);
    problems->throw_if_any(where);
    return preprocessing;
  }
  if (!request.image_size) {
    throw core::InputError("this checkpoint does not say how its images are prepared", where,
                           "give the size it was trained for: --imgsz 640");
  }
  // The defaults that SuperGradients ships for pretrained models of these tasks.
  const std::int64_t size = *request.image_size;
  const auto square = [&](std::int64_t side) {
    auto list = Tree::make_list();
    list->list = {Tree::of(side), Tree::of(side)};
    return list;
  };
  data::ProcessingList list;
  if (model.task() == models::Task::kDetection) {
    list = {
        data::processing_entry("DetectionLongestMaxSizeRescale", {{"output_shape", square(size)}}),
        data::processing_entry(
            "DetectionCenterPadding",
            {{"output_shape", square(size)}, {"pad_value", Tree::of(std::int64_t{114})}})};
  } else {
    list = {data::processing_entry("Resize", {{"size", Tree::of(size)}})};
  }
  list.push_back(data::processing_entry("StandardizeImage", {{"max_value", Tree::of(255.0)}}));
  if (!request.mean.empty() || !request.std.empty()) {
    list.push_back(data::processing_entry("NormalizeImage", {{"mean", numbers(request.mean, 0.0)},
                                                             {"std", numbers(request.std, 1.0)}}));
  } else {
    core::log::warning(
        "{} does not say how colours are normalised: they are only divided by 255; if its training "
        "used a mean and a standard deviation, give --mean and --std (ImageNet: --mean "
        "0.485,0.456,0.406 --std 0.229,0.224,0.225)",
        where);
  }
  return data::Preprocessing::from(list, where);
}

/// What validation did, read from the recipe that our checkpoints carry.
void be_like_validation(const Description& d, const std::string& where, LoadedModel& loaded) {
  const auto* text = d.sgtrain.find("recipe");
  const auto recipe =
      text == nullptr ? Tree::make_map() : core::parse_yaml(text->as_string(), where);
  if (const auto batch = recipe->find_path("dataset_params.val_dataloader_params.batch_size");
      batch && batch->kind == Tree::Kind::kInt) {
    loaded.validation_batch_size = static_cast<int>(batch->integer);
  }
  if (loaded.model->task() != models::Task::kDetection) return;
  const auto metrics = recipe->find_path("training_hyperparams.valid_metrics_list");
  const auto problems = std::make_shared<core::Problems>();
  for (std::size_t i = 0; metrics && i < metrics->list.size(); ++i) {
    core::Node metric = core::Node(metrics->list[i], problems).as_component().params;
    if (!metric.is_map() || !metric.has("post_prediction_callback")) continue;
    const auto make = postprocess::DetectionPostprocess::registry().parse(
        metric.component("post_prediction_callback"));
    problems->throw_if_any(where);
    loaded.postprocess = make();
    return;
  }
  throw core::InputError("this checkpoint carries no recipe with detection metrics", where,
                         "give the thresholds: --conf, --iou, --max-predictions");
}

std::unique_ptr<postprocess::DetectionPostprocess> make_postprocess(
    const Description& d, const postprocess::Thresholds& user) {
  const auto number = [&](std::string_view key, double fallback) {
    const auto* value = d.processing_params.find(key);
    return value != nullptr && value->is_number() ? value->as_double() : fallback;
  };
  auto params = Tree::make_map();
  params->set("score_threshold", Tree::of(user.confidence.value_or(number("conf", 0.25))));
  params->set("nms_threshold", Tree::of(user.iou.value_or(number("iou", 0.7))));
  params->set("nms_top_k", Tree::of(std::int64_t{user.pre_nms_top_k.value_or(
                               static_cast<int>(number("nms_top_k", 1024)))}));
  params->set("max_predictions", Tree::of(std::int64_t{user.max_predictions.value_or(
                                     static_cast<int>(number("max_predictions", 300)))}));
  params->set("multi_label_per_box",
              Tree::of(user.multi_label.value_or(number("multi_label_per_box", 1) != 0)));
  params->set("class_agnostic_nms",
              Tree::of(user.class_agnostic.value_or(number("class_agnostic_nms", 0) != 0)));
  const auto problems = std::make_shared<core::Problems>();
  const auto make = postprocess::DetectionPostprocess::registry().parse(
      {.name = "PPYoloEPostPredictionCallback",
       .params = core::Node(params, problems, "thresholds")});
  problems->throw_if_any("thresholds");
  return make();
}

}  // namespace

fs::path checkpoint_file(const fs::path& name) {
  if (name.empty()) throw core::InputError("an empty name", "checkpoint", "name a file");
  if (fs::is_regular_file(name)) return name;
  if (fs::is_directory(name)) {
    for (const char* file : {"ckpt_best.pth", "ckpt_latest.pth"}) {
      if (fs::exists(name / file)) return name / file;
    }
    throw core::InputError("this folder holds neither ckpt_best.pth nor ckpt_latest.pth",
                           fs::absolute(name).string(), "name the checkpoint file itself");
  }
  throw core::InputError("there is no such checkpoint", fs::absolute(name).string(),
                         "name a .pth or .safetensors file, or a run folder");
}

std::optional<std::string> recipe_of(const fs::path& checkpoint) {
  if (tensor::is_safetensors(checkpoint)) return std::nullopt;
  const Value content = tensor::read_pth(checkpoint);
  const auto* own = content.find("sgtrain");
  const auto* recipe = own == nullptr ? nullptr : own->find("recipe");
  if (recipe == nullptr) return std::nullopt;
  return recipe->as_string();
}

LoadedModel load_model(const ModelRequest& request) {
  const std::string where = request.checkpoint.string();
  const Description d = describe(request.checkpoint);
  const tensor::Weights weights = tensor::read_weights(request.checkpoint);
  LoadedModel loaded;
  loaded.architecture = request.architecture.value_or(text_or(d.sgtrain, "architecture", ""));
  if (loaded.architecture.empty()) {
    throw core::InputError("this checkpoint does not name its architecture", where,
                           "name it with --model, for example --model yolo_nas_s");
  }
  const core::TreePtr arch_params = arch_params_of(d, where);
  loaded.class_names = texts(d.sgtrain.find("class_names"));
  if (loaded.class_names.empty())
    loaded.class_names = texts(d.processing_params.find("class_names"));

  const int guess = request.num_classes.value_or(
      loaded.class_names.empty() ? 1000 : static_cast<int>(loaded.class_names.size()));
  loaded.model = build(loaded.architecture, arch_params, guess);
  const auto in_file = models::classes_of(*loaded.model, weights.tensors);
  if (in_file && *in_file != guess) {
    if (request.num_classes || !loaded.class_names.empty()) {
      throw core::InputError(
          "its head has " + std::to_string(*in_file) + " classes, but " + std::to_string(guess) +
              (request.num_classes ? " were asked for" : " class names are stored in it"),
          where, "leave out --num-classes");
    }
    loaded.model = build(loaded.architecture, arch_params, *in_file);
  }
  models::load_model_state(*loaded.model, weights.tensors, models::StrictLoad::kNoKeyMatching,
                           where, false);
  for (auto i = static_cast<int>(loaded.class_names.size()); i < loaded.model->num_classes(); ++i) {
    loaded.class_names.push_back(std::to_string(i));
  }
  loaded.model->eval();
  loaded.model->to_channels_last();
  loaded.preprocessing = read_preprocessing(d, request, *loaded.model, where);
  if (request.skip_image_resizing) {
    loaded.preprocessing = loaded.preprocessing.without_resizing(loaded.model->size_divisor());
  }
  if (loaded.model->task() == models::Task::kDetection)
    loaded.postprocess = make_postprocess(d, request.thresholds);
  if (request.like_validation) {
    be_like_validation(d, where, loaded);
    if (loaded.postprocess) loaded.postprocess->set(request.thresholds);
  }
  loaded.precision = text_or(d.sgtrain, "precision", "");
  return loaded;
}

}  // namespace sgtrain::predict
