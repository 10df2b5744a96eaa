// What all detection data sets share: keys, class selection, validation of boxes, flat storage and
// loading. A format (data/formats/) reads its files into `RawAnnotations` and hands them over.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/classes.h"
#include "data/dataset.h"
#include "data/string_pool.h"

namespace sgtrain::data {

/// Keys of every detection data set (SuperGradients' DetectionDataset).
struct DetectionParams {
  std::string where;  // file:line, for messages
  std::string data_dir;
  std::optional<std::int64_t> max_num_samples;  // only the first n images
  cv::Size input_dim{};  // images are fitted into this size; 0x0: as they are
  ClassSelection classes;
  bool ignore_empty_annotations = true;  // leave images without boxes out
  bool honor_exif = true;                // turn photos upright
  bool reduced_decode = false;           // decode JPEG at 1/2, 1/4, 1/8 when input_dim is small
  bool skip_bad = false;                 // count unreadable annotation files instead of failing

  /// @param needs_data_dir false: the format may learn its folder elsewhere (data.yaml)
  static DetectionParams from(core::Node& node, bool needs_data_dir = true);
};

/// Annotations as a format read them: images in order, their boxes one after the other.
struct RawAnnotations {
  std::filesystem::path images_root;        // file names are relative to it
  StringPool names;                         // file name of each image
  std::vector<cv::Size> sizes;              // empty, or one each; 0x0: unknown
  std::vector<std::int64_t> ids;            // empty: the index
  std::vector<std::uint8_t> without_label;  // empty: none; 1: this image has no label file
  std::vector<std::uint64_t> ends;          // end of each image's boxes
  std::vector<Box> boxes;                   // label: source label
  std::vector<ExactBox> exact;              // empty, or one for each box
  std::vector<std::uint32_t> lines;         // line (or ordinal) of each box in its file
  bool normalised = false;                  // coordinates are fractions of width and height
  bool with_crowd = true;                   // keep crowd regions
  std::vector<std::string> source_classes;  // source label → name
  std::vector<bool> ignored_classes;        // empty, or per source label
  std::vector<std::string> class_places;    // empty, or where each source class occurs first
  std::string classes_from;                 // file that names the classes, for messages
  /// "file:line" of a box, from its image index and line.
  std::function<std::string(std::size_t, std::uint32_t)> place;
  Report report;  // what the format found so far
  /// What makes the annotations unusable, each kind once: the data set throws them together.
  std::vector<core::InputError> mistakes;
};

class DetectionDataset : public Dataset {
 public:
  Task task() const override { return Task::kDetection; }
  std::int64_t size() const override;
  Annotation annotation(std::int64_t index) const override;
  Sample load(std::int64_t index) const override;
  std::string image_path(std::int64_t index) const override;
  cv::Size input_dim() const override { return params_.input_dim; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  const Report& report() const override { return report_; }

 protected:
  /// Errors: core::InputError when classes do not fit, when no image is left, or when coordinates
  /// are plainly of another format.
  DetectionDataset(const DetectionParams& params, RawAnnotations raw);

 private:
  void check_boxes(RawAnnotations& raw, const std::vector<std::int32_t>& labels);
  void select_images(const RawAnnotations& raw);
  void refuse_nothing_left() const;
  std::size_t raw_index(std::int64_t index) const;

  DetectionParams params_;
  std::filesystem::path images_root_;
  StringPool names_;
  std::vector<cv::Size> sizes_;
  std::vector<std::int64_t> ids_;
  std::vector<std::uint64_t> ends_;
  std::vector<Box> boxes_;
  std::vector<ExactBox> exact_;  // empty, or one for each box
  bool normalised_ = false;
  std::vector<std::uint32_t> kept_;  // index → image; unused when all images are served
  bool all_kept_ = true;
  std::vector<std::string> class_names_;
  Report report_;
};

/// `image` fitted into `target` (both sides at most), aspect kept: ratio = min(th / h, tw / w), new
/// sides int(side * ratio), bilinear. Returns the ratio.
double fitted_size(cv::Size image, cv::Size target, cv::Size& out);

/// Reads `key` as the reference does, for keys that have no effect here.
void accept_without_effect(core::Node& node, std::initializer_list<const char*> keys);

}  // namespace sgtrain::data
