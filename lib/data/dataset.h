// Interface of data sets. A data set indexes its annotations once, validates them on the CPU
// before the first step, and then loads samples by index from any thread.
//
// A new data set is one file in data/formats/: class with `struct Params { static Params
// from(core::Node&); }` and a constructor (const Params&, const Paths&); last line
// SGTRAIN_REGISTER. `Params::from` reads the keys of `train_dataset_params` except `transforms` and
// `target_transform`, which belong to data/transforms and are read by whoever builds the pipeline.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/registry.h"
#include "data/paths.h"
#include "data/report.h"
#include "data/sample.h"

namespace sgtrain::data {

enum class Task { kClassification, kDetection, kSegmentation, kPose };
std::string_view task_name(Task task);

/// A box as the annotation file has it: pixels, neither rounded nor clipped, with the object's
/// area.
struct ExactBox {
  double x = 0, y = 0, w = 0, h = 0;
  double area = 0;
};

/// Annotations of one image, as views into the data set's flat arrays (valid as long as it lives).
struct Annotation {
  std::int32_t label = -1;     // classification
  std::span<const Box> boxes;  // detection: upright, unresized image
  /// Box coordinates are fractions of the image's width and height (YOLO), else pixels.
  bool normalised = false;
  cv::Size size{};             // upright image size; 0x0 when the annotations do not tell
  std::int64_t image_id = -1;  // the file's own id (COCO), else the index
  /// For scoring, one for each box; empty: `boxes` say all there is.
  std::span<const ExactBox> exact{};
};

class Dataset {
 public:
  using Registry = core::Registry<Dataset, const Paths&>;
  static Registry& registry();

  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual Task task() const = 0;
  virtual std::int64_t size() const = 0;
  /// Without touching the image.
  virtual Annotation annotation(std::int64_t index) const = 0;
  /// Image and annotations, resized by the data set's own `input_dim` if it has one (boxes and
  /// image together). Always RGB: the reference hands BGR to detection transforms, so the
  /// transform pipeline swaps first where parity asks for it.
  /// Thread-safe. Errors: core::Error with the file's name when the image cannot be decoded.
  virtual Sample load(std::int64_t index) const = 0;
  /// File (or "archive[index]") of a sample, for messages.
  virtual std::string image_path(std::int64_t index) const = 0;
  /// False when image_path() names a place inside a larger file.
  virtual bool images_are_files() const { return true; }
  /// Size into which load() fits images; 0x0: none.
  virtual cv::Size input_dim() const { return {}; }
  /// Index → name; empty when the format has none.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual const Report& report() const = 0;

  /// Number of classes that annotations use at most: class_names().size(), else largest label + 1.
  virtual std::int64_t num_classes() const;

 protected:
  Dataset() = default;
};

/// Checks one data set against the model before the first step: every label must lie in
/// 0..num_classes-1. Errors: core::InputError that shows the first offenders and says when ids look
/// 1-based.
void check_num_classes(const Dataset& dataset, std::int64_t num_classes, const std::string& where);

/// Names listed in the recipe (`class_names`) against the data set's own. Errors: core::InputError
/// with both lists and the nearest right name of each misspelt class.
void check_class_names(const std::vector<std::string>& wanted, const Dataset& dataset,
                       const std::string& where);

/// Train and validation set must name the same classes in the same order. Errors: core::InputError
/// with both orders.
void check_same_classes(const Dataset& train, const Dataset& valid);

}  // namespace sgtrain::data
