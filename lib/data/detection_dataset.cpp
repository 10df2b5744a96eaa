#include "data/detection_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "data/boxes.h"
#include "data/pixels.h"
#include "data/read_params.h"
#include "image/image.h"

namespace sgtrain::data {
namespace {

constexpr std::int64_t kMaxImages = 100'000'000;
/// Sides below this many pixels (or this fraction of a pixel's share in normalised units) count as
/// zero: they give wild losses and mean nothing.
constexpr float kMinSide = 1e-3F;
constexpr float kMinNormalisedSide = 1e-6F;
/// Overshoots up to this are rounding of the exporter.
constexpr float kTolerance = 1.0F;
constexpr float kNormalisedTolerance = 2e-3F;
/// Above this, boxes leaving the image are a sign of another coordinate format.
constexpr double kManyOutside = 0.3;

enum class Verdict { kKeep, kClip, kInverted, kZeroSize, kOutside };

/// Clips `box` to `limit` (0x0: unknown, only the lower border) and judges it.
Verdict judge(Box& box, cv::Size2f limit, bool normalised) {
  const bool finite = std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) &&
                      std::isfinite(box.y2);
  if (!finite) return Verdict::kOutside;
  if (box.x2 < box.x1 || box.y2 < box.y1) return Verdict::kInverted;
  const float smallest = normalised ? kMinNormalisedSide : kMinSide;
  if (box.width() < smallest || box.height() < smallest) return Verdict::kZeroSize;
  const Box before = box;
  const float right = limit.width > 0 ? limit.width : std::max(box.x2, 0.0F);
  const float bottom = limit.height > 0 ? limit.height : std::max(box.y2, 0.0F);
  clip_box(box, right, bottom);
  if (box.width() < smallest || box.height() < smallest) return Verdict::kOutside;
  const float tolerance = normalised ? kNormalisedTolerance : kTolerance;
  const bool far = before.x1 < -tolerance || before.y1 < -tolerance ||
                   before.x2 > right + tolerance || before.y2 > bottom + tolerance;
  return far ? Verdict::kClip : Verdict::kKeep;
}

Finding finding_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kInverted:
      return Finding::kInverted;
    case Verdict::kZeroSize:
      return Finding::kZeroSize;
    case Verdict::kOutside:
      return Finding::kOutside;
    default:
      return Finding::kClipped;
  }
}

std::string describe(const Box& box, cv::Size size) {
  const std::string bounds =
      size.empty() ? std::string() : fmt::format(", image {} x {}", size.width, size.height);
  return fmt::format("box [{:g}, {:g}, {:g}, {:g}]{}", box.x1, box.y1, box.x2, box.y2, bounds);
}

std::string size_warning(const std::string& path, cv::Size annotated, cv::Size real) {
  const bool turned = annotated.width == real.height && annotated.height == real.width;
  return fmt::format("{}: annotated as {} x {}, but the picture is {} x {}{}", path,
                     annotated.width, annotated.height, real.width, real.height,
                     turned ? " after its EXIF orientation; were the labels drawn on the unturned "
                              "picture, set honor_exif: False"
                            : "");
}

void throw_together(const std::vector<core::InputError>& mistakes) {
  if (mistakes.empty()) return;
  if (mistakes.size() == 1) throw mistakes.front();
  std::string text = fmt::format("{} kinds of mistakes", mistakes.size());
  for (const core::InputError& mistake : mistakes) text += fmt::format("\n- {}", mistake.what());
  throw core::InputError(text);
}

}  // namespace

void accept_without_effect(core::Node& node, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!node.describing() && node.has(key)) node.child(key).read_all();
  }
}

DetectionParams DetectionParams::from(core::Node& node, bool needs_data_dir) {
  DetectionParams p;
  p.where = node.where();
  p.data_dir = needs_data_dir
                   ? node.get<std::string>("data_dir").help("folder of the data set").value()
                   : node.get_or("data_dir", "").help("folder of the data set").value();
  if (const auto most = node.find<std::int64_t>("max_num_samples")) {
    if (*most < 1) node.problem("max_num_samples", "expected a number of images, at least 1");
    p.max_num_samples = std::max<std::int64_t>(*most, 1);
  }
  p.input_dim = find_size(node, "input_dim").value_or(cv::Size());
  p.classes.all_classes_list = node.get_or("all_classes_list", std::vector<std::string>{}).value();
  p.classes.class_inclusion_list = node.find<std::vector<std::string>>("class_inclusion_list");
  p.ignore_empty_annotations =
      node.get_or("ignore_empty_annotations", true).help("leave images without boxes out");
  p.honor_exif = node.get_or("honor_exif", true).help("turn photos upright as EXIF says");
  p.reduced_decode = node.get_or("reduced_decode", false)
                         .help(
                             "decode JPEG at 1/2, 1/4 or 1/8 when input_dim is small: faster, "
                             "not the same pixels");
  p.skip_bad = node.get_or("skip_bad", false).help("count unreadable annotation files and go on");
  // Annotations are always indexed at start and kept in flat arrays; the rest names fields of the
  // reference's Python objects or was deprecated there.
  accept_without_effect(
      node, {"cache_annotations", "verbose", "show_all_warnings", "cache", "cache_dir",
             "target_fields", "output_fields", "original_target_format", "tight_box_rotation"});
  return p;
}

DetectionDataset::DetectionDataset(const DetectionParams& params, RawAnnotations raw)
    : params_(params), images_root_(std::move(raw.images_root)), report_(std::move(raw.report)) {
  if (params.max_num_samples &&
      static_cast<std::size_t>(*params.max_num_samples) < raw.names.size()) {
    const auto most = static_cast<std::size_t>(*params.max_num_samples);
    raw.names.resize(most);
    if (!raw.sizes.empty()) raw.sizes.resize(most);
    raw.ends.resize(most);
    raw.boxes.resize(raw.ends.back());
  }
  if (static_cast<std::int64_t>(raw.names.size()) > kMaxImages) {
    throw core::InputError("more than 100 million images", params.where);
  }
  ClassMap classes;
  try {
    classes = map_classes({.names = raw.source_classes,
                           .ignored = raw.ignored_classes,
                           .places = raw.class_places,
                           .file = raw.classes_from},
                          params.classes, params.where, report_.warnings);
  } catch (const core::InputError& error) {
    raw.mistakes.push_back(error);
  }
  throw_together(raw.mistakes);
  class_names_ = std::move(classes.names);
  normalised_ = raw.normalised;
  check_boxes(raw, classes.to_output);
  select_images(raw);
  names_ = std::move(raw.names);
  sizes_ = std::move(raw.sizes);
  ids_ = std::move(raw.ids);
  refuse_nothing_left();
}

void DetectionDataset::check_boxes(RawAnnotations& raw, const std::vector<std::int32_t>& labels) {
  std::size_t out = 0;
  std::int64_t judged = 0, leaving = 0;
  std::size_t begin = 0;
  ends_.resize(raw.names.size());
  for (std::size_t image = 0; image < raw.names.size(); ++image) {
    const std::size_t end = raw.ends[image];
    const cv::Size size = raw.sizes.empty() ? cv::Size() : raw.sizes[image];
    const cv::Size2f limit = normalised_ ? cv::Size2f(1, 1) : cv::Size2f(size);
    for (std::size_t i = begin; i < end; ++i) {
      Box box = raw.boxes[i];
      const std::int32_t label = labels[static_cast<std::size_t>(box.label)];
      if (label < 0 || (box.crowd && !raw.with_crowd)) {
        report_.add(label < 0 ? Finding::kIgnoredClass : Finding::kCrowd);
        continue;
      }
      box.label = label;
      const Verdict verdict = judge(box, limit, normalised_);
      ++judged;
      if (verdict != Verdict::kKeep) {
        const Finding finding = finding_of(verdict);
        leaving += verdict == Verdict::kClip || verdict == Verdict::kOutside ? 1 : 0;
        if (report_.wants(finding)) {
          report_.add(finding, raw.place(image, raw.lines.empty() ? 0 : raw.lines[i]) + ": " +
                                   describe(raw.boxes[i], size));
        } else {
          report_.add(finding);
        }
        if (verdict != Verdict::kClip) continue;
      }
      report_.crowd += box.crowd ? 1 : 0;
      if (!raw.exact.empty()) raw.exact[out] = raw.exact[i];
      raw.boxes[out++] = box;
    }
    begin = end;
    ends_[image] = out;
  }
  if (judged > 0 && static_cast<double>(leaving) > kManyOutside * static_cast<double>(judged)) {
    report_.warnings.push_back(fmt::format(
        "{} of {} boxes leave their image: are the coordinates really {}?", leaving, judged,
        normalised_ ? "class, centre x, centre y, width, height"
                    : "of this format (COCO: x, y, width, height; VOC: corners)"));
  }
  raw.boxes.resize(out);
  raw.boxes.shrink_to_fit();
  boxes_ = std::move(raw.boxes);
  if (!raw.exact.empty()) raw.exact.resize(out);
  exact_ = std::move(raw.exact);
  report_.boxes = static_cast<std::int64_t>(out);
}

void DetectionDataset::select_images(const RawAnnotations& raw) {
  const std::size_t count = raw.names.size();
  for (std::size_t image = 0; image < count; ++image) {
    const bool has_boxes = ends_[image] > (image == 0 ? 0 : ends_[image - 1]);
    const bool had_boxes = raw.ends[image] > (image == 0 ? 0 : raw.ends[image - 1]);
    if (has_boxes) {
      ++report_.with_boxes;
    } else if (!raw.without_label.empty() && raw.without_label[image] != 0) {
      ++report_.without_label_file;
    } else {
      ++report_.empty;
      report_.emptied += had_boxes ? 1 : 0;
    }
    if (has_boxes || !params_.ignore_empty_annotations) {
      kept_.push_back(static_cast<std::uint32_t>(image));
    }
  }
  all_kept_ = kept_.size() == count;
  if (all_kept_) kept_ = {};
  report_.images = static_cast<std::int64_t>(count);
  report_.kept = size();
}

void DetectionDataset::refuse_nothing_left() const {
  if (size() > 0) return;
  if (report_.images == 0) {
    throw core::InputError("the data set has no images", report_.title);
  }
  throw core::InputError("no image has a usable box\n" + report_.text(), params_.where,
                         "set ignore_empty_annotations: False to keep images without boxes as "
                         "background");
}

std::size_t DetectionDataset::raw_index(std::int64_t index) const {
  if (index < 0 || index >= size()) {
    throw core::Error(fmt::format("sample {} of {} asked for", index, size()), report_.title);
  }
  const auto at = static_cast<std::size_t>(index);
  return all_kept_ ? at : kept_[at];
}

std::int64_t DetectionDataset::size() const {
  return static_cast<std::int64_t>(all_kept_ ? ends_.size() : kept_.size());
}

Annotation DetectionDataset::annotation(std::int64_t index) const {
  const std::size_t image = raw_index(index);
  const std::size_t begin = image == 0 ? 0 : ends_[image - 1], count = ends_[image] - begin;
  Annotation out{.label = -1,
                 .boxes = std::span(boxes_).subspan(begin, count),
                 .normalised = normalised_,
                 .size = sizes_.empty() ? cv::Size() : sizes_[image],
                 .image_id = ids_.empty() ? index : ids_[image]};
  if (!exact_.empty()) out.exact = std::span(exact_).subspan(begin, count);
  return out;
}

std::string DetectionDataset::image_path(std::int64_t index) const {
  return (images_root_ / names_[raw_index(index)]).native();
}

double fitted_size(cv::Size image, cv::Size target, cv::Size& out) {
  const double ratio = std::min(static_cast<double>(target.height) / image.height,
                                static_cast<double>(target.width) / image.width);
  out = {std::max(1, static_cast<int>(image.width * ratio)),
         std::max(1, static_cast<int>(image.height * ratio))};
  return ratio;
}

Sample DetectionDataset::load(std::int64_t index) const {
  const std::size_t image = raw_index(index);
  const Annotation annotated = annotation(index);
  const std::string path = image_path(index);
  image::DecodeOptions options{.honor_exif = params_.honor_exif};
  const std::vector<std::uint8_t> bytes = image::read_file(path);
  if (params_.reduced_decode && !params_.input_dim.empty()) {
    cv::Size fitted;
    fitted_size(image::probe(bytes, path).upright(), params_.input_dim, fitted);
    options.min_width = fitted.width;
    options.min_height = fitted.height;
  }
  image::Decoded decoded = image::decode(bytes, path, options);

  Sample sample;
  sample.boxes.assign(annotated.boxes.begin(), annotated.boxes.end());
  sample.index = index;
  sample.image_id = annotated.image_id;
  sample.original_size = decoded.full_size;
  sample.name = std::string(names_[image]);
  sample.warning = std::move(decoded.warning);
  sample.image = std::move(decoded.image);
  const auto width = static_cast<float>(sample.original_size.width);
  const auto height = static_cast<float>(sample.original_size.height);
  if (normalised_) scale_boxes(sample.boxes, width, height);
  // The size may have been unknown when the boxes were checked, or annotated wrongly.
  if (annotated.size != sample.original_size) {
    clip_boxes(sample.boxes, sample.original_size);
    if (!annotated.size.empty() && sample.warning.empty()) {
      sample.warning = size_warning(path, annotated.size, sample.original_size);
    }
  }
  if (params_.input_dim.empty()) return sample;
  cv::Size fitted;
  const double ratio = fitted_size(sample.original_size, params_.input_dim, fitted);
  if (fitted != sample.image.size()) {
    cv::Mat resized(fitted, CV_8UC3);
    resize_linear(sample.image, resized);
    sample.image = std::move(resized);
  }
  scale_boxes(sample.boxes, static_cast<float>(ratio), static_cast<float>(ratio));
  return sample;
}

}  // namespace sgtrain::data
