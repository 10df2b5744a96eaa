#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "command.h"
#include "core/error.h"
#include "core/log.h"
#include "core/signals.h"
#include "core/text.h"
#include "image/image.h"
#include "log_options.h"
#include "predict/inputs.h"
#include "predict/load_model.h"
#include "predict/outputs.h"
#include "predict/predictor.h"
#include "predict/source.h"
#include "tensor/device.h"

namespace sgtrain::app {
namespace {

struct Options {
  LogOptions log;
  std::string checkpoint, model, device = "auto", precision, output = "predictions", json, coco,
                                 coco_annotations;
  std::vector<std::string> inputs, classes;
  std::vector<double> mean, std;
  int num_classes = 0, imgsz = 0, batch_size = 0, max_predictions = 0, limit = 0;
  double conf = -1, iou = -1;
  bool class_agnostic = false, recursive = false, grid = false, no_fuse = false,
       skip_resizing = false, no_images = false, no_confidence = false, like_validation = false;
};

predict::ModelRequest request_of(const Options& o) {
  predict::ModelRequest request;
  request.checkpoint = predict::checkpoint_file(o.checkpoint);
  if (!o.model.empty()) request.architecture = o.model;
  if (o.num_classes > 0) request.num_classes = o.num_classes;
  if (o.imgsz > 0) request.image_size = o.imgsz;
  request.mean = o.mean;
  request.std = o.std;
  request.skip_image_resizing = o.skip_resizing;
  request.like_validation = o.like_validation;
  if (o.conf >= 0) request.thresholds.confidence = o.conf;
  if (o.iou >= 0) request.thresholds.iou = o.iou;
  if (o.max_predictions > 0) request.thresholds.max_predictions = o.max_predictions;
  if (o.class_agnostic) request.thresholds.class_agnostic = true;
  return request;
}

/// Class indices that --classes names, by name or number; empty: all.
std::set<int> wanted_classes(const Options& o, const std::vector<std::string>& names) {
  std::set<int> wanted;
  for (const std::string& word : o.classes) {
    for (const std::string& item : core::split(word, ',')) {
      const auto found = std::find(names.begin(), names.end(), item);
      const bool number = !item.empty() && item.size() < 7 &&
                          item.find_first_not_of("0123456789") == std::string::npos;
      if (found != names.end()) {
        wanted.insert(static_cast<int>(found - names.begin()));
      } else if (number && static_cast<std::size_t>(std::stoi(item)) < names.size()) {
        wanted.insert(std::stoi(item));
      } else {
        throw core::InputError(
            "no class is called '" + item + "'" + core::did_you_mean(item, names), "--classes",
            "classes: " + core::join(names));
      }
    }
  }
  return wanted;
}

void keep_classes(predict::Prediction& prediction, const std::set<int>& wanted) {
  if (wanted.empty()) return;
  std::erase_if(prediction.boxes, [&](const auto& box) { return !wanted.contains(box.label); });
  std::erase_if(prediction.classes, [&](const auto& item) { return !wanted.contains(item.first); });
}

/// True when --output names a picture to be written, and not a folder of pictures.
bool is_one_picture(const Options& o) {
  std::error_code ignored;
  return image::has_image_suffix(o.output) && !std::filesystem::is_directory(o.output, ignored);
}

/// Makes a folder, in which `option` then writes.
void require_folder(std::filesystem::path folder, const std::string& option) {
  namespace fs = std::filesystem;
  if (folder.empty()) folder = ".";
  std::error_code error;
  fs::create_directories(folder, error);
  if (fs::is_directory(folder, error) && ::access(folder.c_str(), W_OK) == 0) return;
  throw core::InputError("this folder cannot be written",
                         fs::absolute(folder).lexically_normal().string(),
                         "name another one with " + option);
}

/// Before the model is read: what is asked for must be possible to write.
void check_output(const Options& o, std::int64_t images) {
  namespace fs = std::filesystem;
  const fs::path output = o.output;
  const bool file = o.grid || is_one_picture(o);
  if (o.grid && !image::has_image_suffix(output)) {
    throw core::InputError("the grid is one picture, so --output must name one", output.string(),
                           "for example --output grid.png");
  }
  if (!o.grid && file && images != 1) {
    throw core::InputError(
        "--output names one picture, but there are " + std::to_string(images) + " inputs",
        output.string(), "name a folder, or ask for one picture of all with --grid");
  }
  require_folder(file ? output.parent_path() : output, "--output");
  if (!o.json.empty()) require_folder(fs::path(o.json).parent_path(), "--json");
  if (!o.coco.empty()) require_folder(fs::path(o.coco).parent_path(), "--coco");
  if (!o.coco_annotations.empty() && !fs::is_regular_file(o.coco_annotations)) {
    throw core::InputError("there is no such file", fs::absolute(o.coco_annotations).string(),
                           "--coco-annotations takes a COCO annotation file");
  }
}

class Writer {
 public:
  Writer(const Options& options, const std::vector<std::string>& names)
      : o_(options), names_(names), one_picture_(is_one_picture(options)) {}

  void add(predict::Result result, const cv::Mat& rgb) {
    const image::DrawOptions draw{
        .thickness = 0, .show_confidence = !o_.no_confidence, .alpha = 0.75};
    if (o_.grid) {
      cells_.push_back(result.prediction.classes.empty()
                           ? predict::draw(rgb, result.prediction, names_, draw)
                           : rgb.clone());
      captions_.push_back(predict::caption(result.prediction, names_));
    } else if (!o_.no_images) {
      const std::filesystem::path output = o_.output;
      image::write_file(one_picture_ ? output : output / free_name(result.file),
                        predict::draw(rgb, result.prediction, names_, draw));
    }
    results_.push_back(std::move(result));
  }

  void finish() {
    if (o_.grid && !cells_.empty())
      image::write_file(o_.output, image::image_grid(cells_, captions_));
    if (!o_.json.empty()) {
      predict::write_json(o_.json, results_, names_);
    } else if (!o_.grid && !one_picture_) {
      predict::write_json(std::filesystem::path(o_.output) / "predictions.json", results_, names_);
    }
    if (!o_.coco.empty()) {
      std::vector<std::int64_t> categories;
      if (!o_.coco_annotations.empty())
        categories = predict::apply_coco_ids(o_.coco_annotations, names_, results_);
      predict::write_coco(o_.coco, results_, categories);
    }
  }

 private:
  /// The input's name; two inputs of one name (from two folders) do not overwrite each other.
  std::string free_name(const std::filesystem::path& file) {
    const std::string suffix = core::lower(file.extension().string()) == ".png" ? ".png" : ".jpg";
    std::string name = file.stem().string() + suffix;
    for (int i = 2; !used_.insert(name).second; ++i)
      name = file.stem().string() + "_" + std::to_string(i) + suffix;
    return name;
  }

  const Options& o_;
  const std::vector<std::string>& names_;
  bool one_picture_;
  std::vector<predict::Result> results_;
  std::vector<cv::Mat> cells_;
  std::vector<std::string> captions_;
  std::set<std::string> used_;
};

/// A picture of a batch with what was found in it; nullopt: the network could not take it.
using Found = std::vector<std::optional<predict::Prediction>>;

/// Predicts on a batch; when that fails, on each picture alone, so that one that cannot be
/// processed costs no other. Such a picture is named. `wrong` keeps the first mistake of the
/// user's.
Found predict_each(predict::Predictor& predictor, const std::vector<predict::Picture>& batch,
                   std::optional<core::InputError>& wrong) {
  std::vector<cv::Mat> images;
  for (const auto& picture : batch) images.push_back(picture.rgb);
  Found found;
  try {
    for (auto& prediction : predictor(images)) found.emplace_back(std::move(prediction));
    return found;
  } catch (const core::Interrupted&) {
    throw;
  } catch (const std::exception&) {
    found.clear();  // once more, one by one
  }
  for (const auto& picture : batch) {
    found.emplace_back();
    std::string why;
    try {
      found.back() = std::move(predictor({&picture.rgb, 1}).front());
      continue;
    } catch (const core::Interrupted&) {
      throw;
    } catch (const core::InputError& error) {
      if (!wrong) wrong = error;
      why = error.what();
    } catch (const core::Error& error) {
      why = error.what();
    } catch (const std::exception& error) {
      why = "the network cannot process it";
      core::log::debug("{}", error.what());
    }
    core::log::warning("skipped: {} ({} x {} pixels): {}", picture.file.string(), picture.rgb.cols,
                       picture.rgb.rows, why);
  }
  return found;
}

int run(const Options& o) {
  core::signals::install();
  auto source = predict::open_source(o.inputs, o.recursive, o.limit);
  check_output(o, source->size());
  tensor::set_threads(0);
  const at::Device device = tensor::resolve_device(o.device).front();
  predict::LoadedModel loaded = predict::load_model(request_of(o));
  const std::string precision = !o.precision.empty()       ? o.precision
                                : loaded.precision.empty() ? "fp32"
                                                           : loaded.precision;
  predict::Predictor predictor(std::move(loaded),
                               {.device = device,
                                .precision = tensor::resolve_precision(precision, device),
                                .fuse = !o.no_fuse && !o.like_validation});
  const int batch_size =
      o.batch_size > 0 ? o.batch_size : predictor.loaded().validation_batch_size.value_or(8);
  const auto& names = predictor.loaded().class_names;
  const std::set<int> wanted = wanted_classes(o, names);
  Writer writer(o, names);
  core::Progress progress("Predicting");
  std::int64_t done = 0, skipped = 0;
  std::optional<core::InputError> wrong;
  while (done + skipped < source->size()) {
    core::signals::throw_if_stopped("prediction was interrupted");
    std::vector<predict::Picture> batch;
    while (static_cast<int>(batch.size()) < batch_size &&
           done + skipped + static_cast<std::int64_t>(batch.size()) < source->size()) {
      try {
        batch.push_back(source->next());
      } catch (const core::Error& error) {
        core::log::warning("skipped: {}", error.what());
        ++skipped;
      }
    }
    Found found = predict_each(predictor, batch, wrong);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!found[i]) {
        ++skipped;
        continue;
      }
      keep_classes(*found[i], wanted);
      writer.add({.file = batch[i].file, .image_id = done, .prediction = *std::move(found[i])},
                 batch[i].rgb);
      ++done;
    }
    progress.update(fmt::format("{}/{}", done + skipped, source->size()));
  }
  progress.finish();
  if (done == 0 && wrong) throw *wrong;  // no picture fits: a setting is wrong, not a picture
  writer.finish();
  core::log::result("{} images predicted{} -> {}\n", done,
                    skipped > 0 ? fmt::format(", {} skipped", skipped) : "", o.output);
  return static_cast<int>(skipped > 0 ? core::ExitCode::kSomeSkipped : core::ExitCode::kDone);
}

}  // namespace

void add_predict(CLI::App& root, Action& action) {
  auto* command =
      root.add_subcommand("predict", "Images to pictures with boxes or labels, JSON, COCO results");
  auto o = std::make_shared<Options>();
  command
      ->add_option("--checkpoint,--weights", o->checkpoint,
                   "A .pth or .safetensors file, or a run folder (its best)")
      ->required();
  command
      ->add_option("inputs", o->inputs,
                   "Files, folders, globs; also an IDX image file (MNIST family)")
      ->required();
  command->add_option("-o,--output,--save", o->output,
                      "Folder written; for one input, or with --grid, the picture's own name");
  command->add_option("--conf", o->conf, "Confidence threshold (default: the checkpoint's)")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--iou", o->iou, "IoU threshold of NMS (default: the checkpoint's)")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--max-predictions,--max-det", o->max_predictions, "Most boxes per image")
      ->check(CLI::PositiveNumber);
  command->add_flag("--class-agnostic-nms,--agnostic-nms", o->class_agnostic,
                    "NMS over all classes together");
  command
      ->add_option("--classes", o->classes,
                   "Only these classes (names or numbers, comma separated)")
      ->allow_extra_args(false);  // what follows is an image
  command->add_option("--json", o->json,
                      "Where the JSON goes (default: predictions.json in the folder)");
  command->add_option("--coco", o->coco, "Also write COCO results to this file");
  command->add_option("--coco-annotations", o->coco_annotations,
                      "COCO ground truth that gives image and category ids");
  command->add_flag("--grid", o->grid, "One picture with all images instead of a folder");
  command->add_flag("--no-images", o->no_images, "Write no pictures");
  command->add_flag("--no-confidence", o->no_confidence, "Draw names without confidences");
  command->add_option("--limit", o->limit, "Only the first N images")->check(CLI::PositiveNumber);
  command->add_flag("--recursive", o->recursive, "Also look into sub-folders");
  command->add_option("--batch-size,--batch", o->batch_size, "Images per forward (default 8)")
      ->check(CLI::Range(1, 4096));
  command->add_option("--model", o->model, "Architecture, for files that do not name it");
  command
      ->add_option("--num-classes", o->num_classes,
                   "Classes of the head, for files that do not say")
      ->check(CLI::PositiveNumber);
  command->add_option("--imgsz", o->imgsz, "Square input size, for files that do not say")
      ->check(CLI::PositiveNumber);
  for (auto [name, values, help] :
       {std::tuple("--mean", &o->mean, "Mean of the colours in [0, 1], for files that do not say"),
        std::tuple("--std", &o->std, "Their standard deviation: 0.229,0.224,0.225")}) {
    command->add_option(name, *values, help)->delimiter(',')->allow_extra_args(false);
  }
  command->add_flag("--skip-image-resizing", o->skip_resizing,
                    "Images keep their size (padded to what the network needs)");
  command->add_option("--device", o->device, "cpu, cuda, cuda:1");
  command->add_option("--precision", o->precision,
                      "auto, fp32, bf16, fp16 (default: that of training, else fp32)");
  command->add_flag("--no-fuse", o->no_fuse, "Do not fold blocks before inference");
  command->add_flag("--like-validation", o->like_validation,
                    "As validation of the training run did: its thresholds, precision, batch size, "
                    "unfused; scoring the COCO results then gives its COCO_AP");
  o->log.add(*command);
  command->callback([o, &action] {
    action = [o] {
      o->log.apply();
      if (o->grid && o->output == "predictions") o->output += ".png";
      return run(*o);
    };
  });
}

}  // namespace sgtrain::app
