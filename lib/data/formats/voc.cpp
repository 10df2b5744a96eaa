// Pascal VOC detection: one xml per image (corners in pixels), or the reference's converted rows
// `xmin ymin xmax ymax class`.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <set>
#include <unordered_map>

#include "core/error.h"
#include "core/registry.h"
#include "core/text.h"
#include "data/detection_dataset.h"
#include "data/files.h"
#include "data/formats/labelled_files.h"
#include "data/formats/voc_xml.h"
#include "data/parallel.h"

namespace sgtrain::data {
namespace {

constexpr std::size_t kMaxLabelBytes = std::size_t{64} << 20;  // of one label file
constexpr std::size_t kGrain = 512;                            // files that justify a thread

struct VocParams {
  DetectionParams common;
  std::string images_dir, labels_dir;  // below data_dir
  std::string list_file;               // below data_dir ("ImageSets/Main/train.txt"); empty: all
  std::string label_file_ext = "xml";  // xml, txt, or auto: what labels_dir holds
  std::string difficult = "keep";      // objects marked difficult: keep, ignore, or crowd

  void read_shared(core::Node& node) {
    common = DetectionParams::from(node);
    list_file = node.get_or("list_file|image_set", "").help("file that lists the images to use");
  }
};

/// What the reading threads find, part by part.
struct Part {
  std::vector<Box> boxes;  // label: index in `names`
  std::vector<std::uint32_t> lines;
  std::vector<std::uint32_t> counts;  // of each image
  std::vector<cv::Size> sizes;
  std::vector<std::uint8_t> state;  // 1: no label file, 2: unreadable
  std::vector<std::string> names;
  std::vector<std::string> name_places;  // "file:line" where each name occurred first
  std::unordered_map<std::string, std::int32_t> index_of;
  Report report;

  std::int32_t label(const std::string& name, const std::string& file, std::uint32_t line) {
    const auto [found, is_new] =
        index_of.try_emplace(name, static_cast<std::int32_t>(names.size()));
    if (is_new) {
      names.push_back(name);
      name_places.push_back(fmt::format("{}:{}", file, line));
    }
    return found->second;
  }
};

class VocReader {
 public:
  VocReader(const VocParams& params, const Paths& paths) : params_(params) {
    const std::string& where = params.common.where;
    const Paths inside(paths.find(params.common.data_dir, "data_dir", where));
    images_root_ = inside.find(params.images_dir, "image folder", where);
    labels_root_ = inside.find(params.labels_dir, "label folder", where);
    xml_ = params.label_file_ext == "xml";
    raw_.report.title = "VOC " + images_root_.native();
    pair_folders(images_root_, labels_root_, xml_ ? ".xml" : ".txt", files_, raw_.report);
    if (params.label_file_ext == "auto" && without_labels()) {
      xml_ = true;
      files_ = {};
      raw_.report.labels_without_image = 0;
      pair_folders(images_root_, labels_root_, ".xml", files_, raw_.report);
    }
    if (!params.list_file.empty()) {
      keep_listed(inside.find(params.list_file, "list file", where), params.common.skip_bad, files_,
                  raw_.report);
    }
  }

  RawAnnotations read() {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t count = files_.images.size();
    std::vector<Part> parts(part_count(count, kGrain));
    const Folder folder(labels_root_);
    parallel_ranges(count, parts.size(),
                    [&](std::size_t number, std::size_t begin, std::size_t end) {
                      std::string buffer;
                      for (std::size_t i = begin; i < end; ++i)
                        read_one(folder, i, buffer, parts[number]);
                    });
    append(parts);
    raw_.images_root = images_root_;
    raw_.classes_from = labels_root_.native();
    raw_.place = [root = labels_root_, names = labels_](std::size_t image, std::uint32_t line) {
      return fmt::format("{}:{}", (root / names[image]).native(), line);
    };
    raw_.report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(raw_);
  }

 private:
  bool without_labels() const {
    for (std::size_t i = 0; i < files_.labels.size(); ++i) {
      if (!files_.labels[i].empty()) return false;
    }
    return true;
  }
  void read_one(const Folder& folder, std::size_t index, std::string& buffer, Part& part) const;
  void take_xml(const VocFile& file, const std::string& path, Part& part) const;
  void take_rows(std::string_view text, const std::string& path, Part& part) const;
  void append(std::vector<Part>& parts);
  void require_classes(const std::vector<std::string>& found);

  const VocParams& params_;
  std::filesystem::path images_root_, labels_root_;
  LabelledFiles files_;
  StringPool labels_;  // label file of each image that is used
  bool xml_ = true;
  RawAnnotations raw_;
};

void VocReader::read_one(const Folder& folder, std::size_t index, std::string& buffer,
                         Part& part) const {
  const std::string name(files_.labels[index]);
  const std::size_t before = part.boxes.size();
  cv::Size size;
  std::uint8_t state = 1;
  if (!name.empty()) {
    const std::string path = (labels_root_ / name).native();
    try {
      const auto text = folder.read(name, buffer, kMaxLabelBytes);
      if (text && xml_) {
        const VocFile file = parse_voc_xml(*text, path);
        size = file.size;
        take_xml(file, path, part);
      } else if (text) {
        take_rows(*text, path, part);
      }
      state = text ? 0 : 1;
    } catch (const core::Error& error) {
      part.report.add(Finding::kBadFile, error.what());
      state = 2;
    }
  }
  part.sizes.push_back(size);
  part.state.push_back(state);
  part.counts.push_back(static_cast<std::uint32_t>(part.boxes.size() - before));
}

void VocReader::take_xml(const VocFile& file, const std::string& path, Part& part) const {
  for (const VocObject& object : file.objects) {
    if (object.difficult && params_.difficult == "ignore") {
      part.report.add(Finding::kIgnoredClass);
      continue;
    }
    part.boxes.push_back(object.box);
    part.boxes.back().label = part.label(object.name, path, object.line);
    part.boxes.back().crowd = object.difficult && params_.difficult == "crowd";
    part.lines.push_back(object.line);
  }
  for (const auto& [line, why] : file.bad) {
    part.report.add(Finding::kBadRow, fmt::format("{}:{}: {}", path, line, why));
  }
}

/// `xmin ymin xmax ymax class`, class by index in the class list.
void VocReader::take_rows(std::string_view text, const std::string& path, Part& part) const {
  const auto& classes = params_.common.classes.all_classes_list;
  std::uint32_t line = 0;
  for (const std::string& row : core::split(text, '\n')) {
    ++line;
    std::vector<double> values;
    bool good = true;
    for (const std::string& field : core::split(core::trim(row), ' ')) {
      if (field.empty()) continue;
      double value = 0;
      const auto [stop, error] = std::from_chars(field.data(), field.data() + field.size(), value);
      good = good && error == std::errc{} && stop == field.data() + field.size() &&
             std::isfinite(value);
      values.push_back(value);
    }
    if (values.empty() && good) continue;
    good = good && values.size() == 5 && values[4] >= 0 && std::floor(values[4]) == values[4] &&
           values[4] < static_cast<double>(classes.size());
    if (!good) {
      part.report.add(
          Finding::kBadRow,
          fmt::format("{}:{}: expected `xmin ymin xmax ymax class` with a class in 0..{}", path,
                      line, classes.empty() ? 0 : classes.size() - 1));
      continue;
    }
    Box box;
    box.x1 = static_cast<float>(values[0]);
    box.y1 = static_cast<float>(values[1]);
    box.x2 = static_cast<float>(values[2]);
    box.y2 = static_cast<float>(values[3]);
    box.label = part.label(classes[static_cast<std::size_t>(values[4])], path, line);
    part.boxes.push_back(box);
    part.lines.push_back(line);
  }
}

void VocReader::append(std::vector<Part>& parts) {
  std::unordered_map<std::string, std::int32_t> label_of;
  std::size_t image = 0;
  for (Part& part : parts) {
    std::vector<std::int32_t> to_common;
    for (std::size_t i = 0; i < part.names.size(); ++i) {
      const auto [found, is_new] = label_of.try_emplace(
          part.names[i], static_cast<std::int32_t>(raw_.source_classes.size()));
      if (is_new) {
        raw_.source_classes.push_back(part.names[i]);
        raw_.class_places.push_back(part.name_places[i]);
      }
      to_common.push_back(found->second);
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < part.counts.size(); ++i, ++image) {
      const std::size_t begin = next;
      next += part.counts[i];
      if (part.state[i] == 2) continue;  // unreadable: the image is left out
      raw_.names.add(files_.images[image]);
      labels_.add(files_.labels[image]);
      raw_.sizes.push_back(part.sizes[i]);
      raw_.without_label.push_back(part.state[i]);
      for (std::size_t k = begin; k < next; ++k) {
        raw_.boxes.push_back(part.boxes[k]);
        raw_.boxes.back().label = to_common[static_cast<std::size_t>(part.boxes[k].label)];
        raw_.lines.push_back(part.lines[k]);
      }
      raw_.ends.push_back(raw_.boxes.size());
    }
    raw_.report.merge(part.report);
    part = {};
  }
  if (const auto bad = raw_.report.count(Finding::kBadFile); bad > 0 && !params_.common.skip_bad) {
    const auto& first = raw_.report.first(Finding::kBadFile);
    raw_.mistakes.emplace_back(bad == 1 ? first.front()
                                        : fmt::format("{} unreadable annotation files\n  {}", bad,
                                                      core::join(first, "\n  ")),
                               "", "correct them, or count and leave them out with skip_bad: True");
  }
  require_classes(raw_.source_classes);
}

void VocReader::require_classes(const std::vector<std::string>& found) {
  if (!params_.common.classes.all_classes_list.empty()) return;
  const std::set<std::string> sorted(found.begin(), found.end());
  raw_.mistakes.emplace_back(
      "all_classes_list is missing: the order of the classes decides their ids",
      params_.common.where,
      "the annotations name all_classes_list: " + show_classes({sorted.begin(), sorted.end()}));
}

/// Any VOC folder: {data_dir, images_dir, labels_dir, all_classes_list}.
class PascalVOCFormatDetectionDataset : public DetectionDataset {
 public:
  struct Params : VocParams {
    static Params from(core::Node& node) {
      Params p;
      p.read_shared(node);
      p.images_dir = node.get<std::string>("images_dir").help("below data_dir").value();
      p.labels_dir = node.get<std::string>("labels_dir").help("below data_dir").value();
      p.label_file_ext =
          node.get_or("label_file_ext", "xml").one_of({"xml", "txt", "auto"}).value();
      p.difficult = node.get_or("difficult", "keep")
                        .one_of({"keep", "ignore", "crowd"})
                        .help("objects marked as difficult")
                        .value();
      return p;
    }
  };
  PascalVOCFormatDetectionDataset(const VocParams& params, const Paths& paths)
      : DetectionDataset(params.common, VocReader(params, paths).read()) {}
};

const std::vector<std::string>& voc_classes() {
  static const std::vector<std::string> kNames = {
      "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
      "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
      "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};
  return kNames;
}

/// VOC 2007 and 2012 themselves: 20 classes, difficult objects left out.
class PascalVOCDetectionDataset final : public PascalVOCFormatDetectionDataset {
 public:
  struct Params : VocParams {
    static Params from(core::Node& node) {
      Params p;
      p.read_shared(node);
      p.common.classes.all_classes_list = voc_classes();
      const std::string sub = node.get_or("images_sub_directory", "").value();
      p.images_dir = node.get_or("images_dir", sub).help("below data_dir").value();
      std::string labels = p.images_dir;
      if (const auto at = labels.find("images"); at != std::string::npos) {
        labels.replace(at, std::string_view("images").size(), "labels");
      }
      p.labels_dir = node.get_or("labels_dir", labels).help("below data_dir").value();
      p.label_file_ext = "auto";
      p.difficult = "ignore";
      accept_without_effect(node, {"download"});
      return p;
    }
  };
  using PascalVOCFormatDetectionDataset::PascalVOCFormatDetectionDataset;
};

}  // namespace
SGTRAIN_REGISTER(Dataset, PascalVOCFormatDetectionDataset, "PascalVOCFormatDetectionDataset");
SGTRAIN_REGISTER(Dataset, PascalVOCDetectionDataset, "PascalVOCDetectionDataset");
}  // namespace sgtrain::data
