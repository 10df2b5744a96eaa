// YOLO (Darknet, Ultralytics) folders: one text file of rows per image, see yolo_rows.h.
#include <fmt/format.h>

#include <chrono>
#include <limits>

#include "core/error.h"
#include "core/registry.h"
#include "core/text.h"
#include "data/detection_dataset.h"
#include "data/files.h"
#include "data/formats/data_yaml.h"
#include "data/formats/labelled_files.h"
#include "data/formats/yolo_rows.h"
#include "data/parallel.h"

namespace sgtrain::data {
namespace {

constexpr std::size_t kMaxLabelBytes = std::size_t{64} << 20;  // of one label file
constexpr std::size_t kGrain = 4096;                           // label files that justify a thread

struct YoloParams {
  DetectionParams common;
  std::string images_dir, labels_dir;  // below data_dir
  std::string list_file;               // below data_dir; empty: all images of the folder
  std::string data_yaml;               // names folders and classes instead of the keys above
  std::string split;                   // of data_yaml
  std::vector<std::string> classes;
  std::vector<std::int64_t> class_ids_to_ignore;  // class indices
  bool ignore_invalid_labels = true;              // count unreadable rows instead of failing

  static YoloParams from(core::Node& node) {
    YoloParams p;
    const bool from_file = !node.describing() && node.has("data_yaml");
    p.common = DetectionParams::from(node, !from_file);
    p.data_yaml = node.get_or("data_yaml", "")
                      .help(
                          "Ultralytics' data.yaml, instead of data_dir, "
                          "images_dir, labels_dir and classes");
    p.split = node.get_or("split", "train").one_of({"train", "val", "valid", "test"});
    if (from_file) {
      p.images_dir = node.get_or("images_dir", "").value();
      p.classes = node.get_or("classes", std::vector<std::string>{}).value();
    } else {
      p.images_dir = node.get<std::string>("images_dir").help("below data_dir").value();
      p.classes =
          node.get<std::vector<std::string>>("classes").help("class names by index").value();
    }
    p.labels_dir =
        node.get_or("labels_dir", "")
            .help(
                "below data_dir; default: images_dir with its last 'images' replaced by 'labels'");
    p.list_file = node.get_or("list_file", "").help("file that lists the images to use");
    p.class_ids_to_ignore = node.get_or("class_ids_to_ignore", std::vector<std::int64_t>{}).value();
    p.ignore_invalid_labels = node.get_or("ignore_invalid_labels", true)
                                  .help("count and drop unreadable rows instead of failing");
    return p;
  }
};

/// "a/images/train" → "a/labels/train"; unchanged without a folder called images.
std::string labels_folder(const std::string& images) {
  std::vector<std::string> parts = core::split(images, '/');
  for (std::size_t i = parts.size(); i-- > 0;) {
    if (parts[i] != "images") continue;
    parts[i] = "labels";
    return core::join(parts, "/");
  }
  return images;
}

struct Source {
  std::filesystem::path images_root, labels_root;
  LabelledFiles files;
};

/// What the reading threads find, part by part.
struct Part {
  std::vector<Box> boxes;
  std::vector<std::uint32_t> lines;
  std::vector<std::uint32_t> counts;  // of each image
  std::vector<std::uint8_t> without_label;
  std::vector<std::string> class_errors;  // of values that are integers but no class
  std::int64_t class_error_count = 0, lowest = INT64_MAX, highest = INT64_MIN;
  std::int64_t rows = 0, pixel_rows = 0;
  std::vector<std::string> pixel_offenders;
  Report report;
};

class YoloReader {
 public:
  YoloReader(const YoloParams& params, std::vector<std::string> classes)
      : params_(params), classes_(std::move(classes)), ignored_(classes_.size(), false) {
    for (const std::int64_t id : params.class_ids_to_ignore) {
      if (id >= 0 && id < static_cast<std::int64_t>(classes_.size())) {
        ignored_[static_cast<std::size_t>(id)] = true;
      } else {
        ignored_outside_.push_back(id);
      }
    }
  }

  void read(Source& source, RawAnnotations& raw);
  const std::vector<bool>& ignored() const { return ignored_; }
  /// Mistakes that only the whole set can show.
  std::vector<core::InputError> mistakes() const;

 private:
  void read_file(std::string_view text, const std::filesystem::path& file, Part& part) const;
  void take_row(const YoloRow& row, const std::filesystem::path& file, std::uint32_t line,
                Part& part) const;
  void append(std::vector<Part>& parts, RawAnnotations& raw);

  const YoloParams& params_;
  std::vector<std::string> classes_;
  std::vector<bool> ignored_;
  std::vector<std::int64_t> ignored_outside_;
  Part total_;  // without boxes
};

void YoloReader::read_file(std::string_view text, const std::filesystem::path& file,
                           Part& part) const {
  thread_local YoloRow row;
  std::uint32_t line = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view content = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++line;
    const RowKind kind = parse_yolo_row(content, row);
    if (kind == RowKind::kBlank) continue;
    ++part.rows;
    if (kind == RowKind::kBox) {
      take_row(row, file, line, part);
      continue;
    }
    const Finding finding = row.bad_class ? Finding::kBadClass : Finding::kBadRow;
    if (!part.report.wants(finding)) {
      part.report.add(finding);
      continue;
    }
    const std::string range = row.bad_class ? fmt::format(" (0..{})", classes_.size() - 1) : "";
    part.report.add(finding, fmt::format("{}:{}: {}{}", file.native(), line, row.why, range));
  }
}

void YoloReader::take_row(const YoloRow& row, const std::filesystem::path& file, std::uint32_t line,
                          Part& part) const {
  if (row.pixels) {
    ++part.pixel_rows;
    if (part.pixel_offenders.size() < Report::kKeep) {
      part.pixel_offenders.push_back(fmt::format("{}:{}", file.native(), line));
    }
  }
  if (row.label >= 0 && row.label < static_cast<std::int64_t>(classes_.size())) {
    part.lowest = std::min(part.lowest, row.label);
    part.highest = std::max(part.highest, row.label);
    part.boxes.push_back(row.box);
    part.boxes.back().label = static_cast<std::int32_t>(row.label);
    part.lines.push_back(line);
    return;
  }
  for (const std::int64_t id : ignored_outside_) {
    if (id == row.label) return part.report.add(Finding::kIgnoredClass);
  }
  part.lowest = std::min(part.lowest, row.label);
  part.highest = std::max(part.highest, row.label);
  ++part.class_error_count;
  if (part.class_errors.size() < Report::kKeep) {
    part.class_errors.push_back(fmt::format("{}:{}: class {}, but there are {} classes (ids 0..{})",
                                            file.native(), line, row.label, classes_.size(),
                                            classes_.size() - 1));
  }
}

void YoloReader::read(Source& source, RawAnnotations& raw) {
  const std::size_t count = source.files.images.size();
  std::vector<Part> parts(part_count(count, kGrain));
  const Folder folder(source.labels_root);
  parallel_ranges(count, parts.size(), [&](std::size_t number, std::size_t begin, std::size_t end) {
    Part& part = parts[number];
    std::string buffer, file;
    for (std::size_t i = begin; i < end; ++i) {
      file = source.files.labels[i];
      const auto text = file.empty() ? std::nullopt : folder.read(file, buffer, kMaxLabelBytes);
      const std::size_t before = part.boxes.size();
      if (text && !text->empty()) read_file(*text, source.labels_root / file, part);
      part.without_label.push_back(text ? 0 : 1);
      part.counts.push_back(static_cast<std::uint32_t>(part.boxes.size() - before));
    }
  });
  append(parts, raw);
}

void YoloReader::append(std::vector<Part>& parts, RawAnnotations& raw) {
  for (Part& part : parts) {
    std::uint64_t end = raw.boxes.size();
    for (const std::uint32_t count : part.counts) raw.ends.push_back(end += count);
    raw.boxes.insert(raw.boxes.end(), part.boxes.begin(), part.boxes.end());
    raw.lines.insert(raw.lines.end(), part.lines.begin(), part.lines.end());
    raw.without_label.insert(raw.without_label.end(), part.without_label.begin(),
                             part.without_label.end());
    raw.report.merge(part.report);
    total_.report.merge(part.report);
    total_.rows += part.rows;
    total_.pixel_rows += part.pixel_rows;
    total_.class_error_count += part.class_error_count;
    total_.lowest = std::min(total_.lowest, part.lowest);
    total_.highest = std::max(total_.highest, part.highest);
    for (auto [from, to] : {std::pair(&part.class_errors, &total_.class_errors),
                            std::pair(&part.pixel_offenders, &total_.pixel_offenders)}) {
      for (const std::string& text : *from) {
        if (to->size() < Report::kKeep) to->push_back(text);
      }
    }
    part = {};
  }
}

std::vector<core::InputError> YoloReader::mistakes() const {
  std::vector<core::InputError> out;
  if (total_.pixel_rows * 2 > total_.rows) {
    out.emplace_back(
        fmt::format("{} of {} rows look like pixel coordinates\n  {}", total_.pixel_rows,
                    total_.rows, core::join(total_.pixel_offenders, "\n  ")),
        params_.common.where, "divide x and w by the image's width, y and h by its height");
  }
  if (total_.class_error_count > 0) {
    std::string text = fmt::format("{} rows have a class id outside of 0..{}",
                                   total_.class_error_count, classes_.size() - 1);
    if (total_.lowest == 1 && total_.highest == static_cast<std::int64_t>(classes_.size())) {
      text += "; the ids look 1-based";
    }
    text +=
        "\n  " + core::join(total_.class_errors, "\n  ") + "\n  classes: " + show_classes(classes_);
    out.emplace_back(text, params_.common.where,
                     "correct the ids or the class list, or name stray ids in "
                     "class_ids_to_ignore");
  }
  const std::int64_t bad =
      total_.report.count(Finding::kBadRow) + total_.report.count(Finding::kBadClass);
  if (bad > 0 && (!params_.ignore_invalid_labels || !out.empty())) {
    std::string text = fmt::format("{} unreadable rows", bad);
    for (const Finding finding : {Finding::kBadRow, Finding::kBadClass}) {
      for (const std::string& offender : total_.report.first(finding)) text += "\n  " + offender;
    }
    out.emplace_back(text, params_.common.where,
                     "correct them, or count and leave them out with ignore_invalid_labels: True");
  }
  return out;
}

/// A list file names images by path; their labels lie where Ultralytics looks for them.
Source source_of_list(const std::filesystem::path& list) {
  Source source;
  source.images_root = std::filesystem::absolute(list).parent_path();
  source.labels_root = source.images_root;
  for (const std::string& line : read_lines(list)) {
    if (core::trim(line).empty()) continue;
    const std::string image = (source.images_root / line).lexically_normal().native();
    source.files.images.add(image);
    const std::string in_labels = labels_folder(image);
    source.files.labels.add(std::string(stem_of(in_labels)) + ".txt");
  }
  return source;
}

std::vector<Source> find_sources(const YoloParams& params, const Paths& paths, Report& report,
                                 std::vector<std::string>& classes) {
  const std::string& where = params.common.where;
  std::vector<Source> sources;
  const auto add_folder = [&](const std::filesystem::path& images,
                              const std::filesystem::path& labels) {
    Source source{.images_root = images, .labels_root = labels, .files = {}};
    pair_folders(images, labels, ".txt", source.files, report);
    sources.push_back(std::move(source));
  };
  if (params.data_yaml.empty()) {
    const Paths inside(paths.find(params.common.data_dir, "data_dir", where));
    const std::string labels =
        params.labels_dir.empty() ? labels_folder(params.images_dir) : params.labels_dir;
    add_folder(inside.find(params.images_dir, "image folder", where),
               inside.find(labels, "label folder", where));
    if (!params.list_file.empty()) {
      keep_listed(inside.find(params.list_file, "list file", where), params.common.skip_bad,
                  sources.back().files, report);
    }
    return sources;
  }
  const DataYaml data = DataYaml::read(paths.find(params.data_yaml, "data file", where));
  if (classes.empty()) classes = data.names;
  const Paths inside(data.root);
  for (const std::string& entry : data.split(params.split)) {
    std::string text = entry;
    // Exports of Roboflow write ../train/images beside a data.yaml in the same folder.
    std::error_code ignored;
    if (text.starts_with("../") && !std::filesystem::exists(data.root / text, ignored))
      text.erase(0, 3);
    const auto found =
        inside.find(text, "'" + params.split + "' of the data file", data.file.native());
    if (!std::filesystem::is_directory(found)) {
      sources.push_back(source_of_list(found));
    } else {
      add_folder(found, inside.find(labels_folder(found.native()), "label folder", where));
    }
  }
  return sources;
}

RawAnnotations read_yolo(const YoloParams& params, const Paths& paths) {
  const auto start = std::chrono::steady_clock::now();
  RawAnnotations raw;
  raw.normalised = true;
  std::vector<std::string> classes = params.classes;
  std::vector<Source> sources = find_sources(params, paths, raw.report, classes);
  if (classes.empty()) {
    throw core::InputError("the class list is empty", params.common.where,
                           "list the classes in classes");
  }
  raw.images_root = sources.front().images_root;
  raw.report.title = "YOLO " + raw.images_root.native();
  YoloReader reader(params, classes);
  for (Source& source : sources) {
    reader.read(source, raw);
    const bool same_root = source.images_root == raw.images_root;
    for (std::size_t i = 0; i < source.files.images.size(); ++i) {
      const std::string_view name = source.files.images[i];
      if (same_root) {
        raw.names.add(name);
      } else {
        raw.names.add((source.images_root / name).native());
      }
    }
  }
  raw.mistakes = reader.mistakes();
  raw.source_classes = std::move(classes);
  raw.ignored_classes = reader.ignored();
  raw.classes_from = params.data_yaml.empty() ? "classes" : params.data_yaml;
  raw.place = [sources = std::move(sources)](std::size_t image, std::uint32_t line) {
    std::size_t number = 0;
    for (; image >= sources[number].files.labels.size(); ++number) {
      image -= sources[number].files.labels.size();
    }
    const Source& source = sources[number];
    return fmt::format("{}:{}", (source.labels_root / source.files.labels[image]).native(), line);
  };
  raw.report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return raw;
}

class YoloDarknetFormatDetectionDataset final : public DetectionDataset {
 public:
  using Params = YoloParams;
  YoloDarknetFormatDetectionDataset(const YoloParams& params, const Paths& paths)
      : DetectionDataset(params.common, read_yolo(params, paths)) {}
};

}  // namespace
SGTRAIN_REGISTER(Dataset, YoloDarknetFormatDetectionDataset, "YoloDarknetFormatDetectionDataset");
}  // namespace sgtrain::data
