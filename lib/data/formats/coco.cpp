// COCO detection annotations: https://cocodataset.org/#format-data. Boxes are [x, y, width, height]
// in pixels. What hand-made files lack is tolerated: iscrowd (0), area, width and height (read from
// the picture), file_name (the id with 12 digits, .jpg).
#include <fmt/format.h>

#include <simdjson.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "core/error.h"
#include "core/registry.h"
#include "data/detection_dataset.h"
#include "data/json_arrays.h"

namespace sgtrain::data {
namespace {

namespace od = simdjson::ondemand;

constexpr int kMaxSide = 1 << 24;  // pixels; larger sizes are typing mistakes

struct CocoParams {
  DetectionParams common;
  std::string json_annotation_file;  // absolute, or below data_dir
  std::string images_dir;            // below data_dir
  bool with_crowd = true;
  std::vector<std::int64_t> class_ids_to_ignore;  // category ids

  void read_shared(core::Node& node) {
    common = DetectionParams::from(node);
    with_crowd = node.get_or("with_crowd", true).help("keep crowd regions (for scoring)");
    class_ids_to_ignore = node.get_or("class_ids_to_ignore", std::vector<std::int64_t>{}).value();
  }
};

struct RawImage {
  std::int64_t id = 0;
  cv::Size size{};
};

struct RawBox {
  std::int64_t image_id = 0;
  std::int64_t category_id = 0;
  Box box;
  ExactBox exact;
  std::uint32_t ordinal = 0;
};

struct Category {
  std::int64_t id = 0;
  std::string name;
};

/// An integer that exporters may have written as 3, 3.0, true or "3".
bool read_integer(od::value value, std::int64_t& out) {
  od::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  if (type == od::json_type::boolean) {
    bool flag = false;
    if (value.get_bool().get(flag) != simdjson::SUCCESS) return false;
    out = flag ? 1 : 0;
    return true;
  }
  if (type == od::json_type::string) {
    return value.get_int64_in_string().get(out) == simdjson::SUCCESS;
  }
  od::number number;
  if (type != od::json_type::number || value.get_number().get(number) != simdjson::SUCCESS) {
    return false;
  }
  if (number.is_int64()) {
    out = number.get_int64();
    return true;
  }
  const double real = number.as_double();
  if (!(std::abs(real) < 9e15) || std::floor(real) != real) return false;
  out = static_cast<std::int64_t>(real);
  return true;
}

bool read_box(od::value value, Box& box, ExactBox& exact) {
  od::array numbers;
  if (value.get_array().get(numbers) != simdjson::SUCCESS) return false;
  double xywh[4] = {};
  std::size_t count = 0;
  for (auto item : numbers) {
    double number = 0;
    if (count >= 4 || item.get_double().get(number) != simdjson::SUCCESS) return false;
    xywh[count++] = number;
  }
  if (count != 4) return false;
  // In single precision, as the reference implementation adds.
  box.x1 = static_cast<float>(xywh[0]);
  box.y1 = static_cast<float>(xywh[1]);
  box.x2 = box.x1 + static_cast<float>(xywh[2]);
  box.y2 = box.y1 + static_cast<float>(xywh[3]);
  exact = {.x = xywh[0], .y = xywh[1], .w = xywh[2], .h = xywh[3], .area = exact.area};
  return true;
}

/// Reads one annotation file into flat arrays.
class CocoReader {
 public:
  CocoReader(std::filesystem::path file, RawAnnotations& raw) : file_(std::move(file)), raw_(raw) {}

  void read() {
    std::vector<JsonArray> arrays(3);
    arrays[0] = {"images", [this](const JsonElement& e) { image(e); }};
    arrays[1] = {"annotations", [this](const JsonElement& e) { annotation(e); }};
    arrays[2] = {"categories", [this](const JsonElement& e) { category(e); }};
    walk_json_arrays(file_, arrays);
    for (const JsonArray& array : arrays) {
      // A file of images without any object may leave the annotations out.
      if (array.found || array.key == "annotations") continue;
      throw core::InputError("no list '" + std::string(array.key) + "' in the annotation file",
                             file_.native());
    }
    std::stable_sort(categories_.begin(), categories_.end(),
                     [](const Category& a, const Category& b) { return a.id < b.id; });
    for (std::size_t i = 1; i < categories_.size(); ++i) {
      if (categories_[i].id != categories_[i - 1].id) continue;
      throw core::InputError(
          fmt::format("two categories have the id {}: '{}' and '{}'", categories_[i].id,
                      categories_[i - 1].name, categories_[i].name),
          file_.native());
    }
  }

  /// Sorts boxes by image and category ids into contiguous labels.
  void arrange(const std::vector<std::int64_t>& ignored_ids);

 private:
  [[noreturn]] void fail(const JsonElement& element, std::string_view list,
                         std::string_view what) const {
    throw core::InputError(fmt::format("{}[{}]: {}", list, element.index, what),
                           file_.native() + ":" + std::to_string(line_of(file_, element.offset)));
  }
  /// Visits the fields of an element; `visit(key, value)` says false when a value is wrong.
  template <class Visit>
  bool fields(const JsonElement& element, const Visit& visit) {
    od::document document;
    od::object object;
    const simdjson::padded_string_view padded(element.text.data(), element.text.size(),
                                              element.text.size() + JsonElement::kPadding);
    if (parser_.iterate(padded).get(document) != simdjson::SUCCESS ||
        document.get_object().get(object) != simdjson::SUCCESS) {
      return false;
    }
    for (auto field : object) {
      std::string_view key;
      od::value value;
      if (field.unescaped_key().get(key) != simdjson::SUCCESS ||
          field.value().get(value) != simdjson::SUCCESS || !visit(key, value)) {
        return false;
      }
    }
    return true;
  }
  void image(const JsonElement& element);
  void annotation(const JsonElement& element);
  void category(const JsonElement& element);
  /// 0 for a category that is not listed, which is a mistake.
  std::vector<std::int32_t> labels_of_boxes(
      const std::unordered_map<std::int64_t, std::int32_t>& label_of);
  std::unordered_map<std::int64_t, std::uint32_t> index_images();

  std::filesystem::path file_;
  RawAnnotations& raw_;
  od::parser parser_;
  std::vector<RawBox> boxes_;
  std::vector<Category> categories_;
};

void CocoReader::image(const JsonElement& element) {
  std::int64_t id = 0, width = 0, height = 0;
  bool has_id = false;
  std::string name;
  const bool good = fields(element, [&](std::string_view key, od::value value) {
    if (key == "id") return has_id = read_integer(value, id);
    if (key == "width" || key == "height") {
      std::int64_t& side = key == "width" ? width : height;
      if (value.is_null()) return true;
      return read_integer(value, side) && side >= 0 && side <= kMaxSide;
    }
    std::string_view text;
    if (key != "file_name") return true;
    if (value.get_string().get(text) != simdjson::SUCCESS) return false;
    name = text;
    return true;
  });
  if (!good) fail(element, "images", "not a readable image entry");
  if (!has_id) fail(element, "images", "'id' is missing");
  if (name.empty()) name = fmt::format("{:012}.jpg", id);
  raw_.names.add(name);
  raw_.ids.push_back(id);
  const bool known = width > 0 && height > 0;
  raw_.sizes.push_back(known ? cv::Size(static_cast<int>(width), static_cast<int>(height))
                             : cv::Size());
}

void CocoReader::annotation(const JsonElement& element) {
  RawBox raw;
  raw.ordinal = static_cast<std::uint32_t>(element.index);
  bool has_box = false, has_image = false, has_category = false, has_area = false;
  std::int64_t crowd = 0;
  const bool good = fields(element, [&](std::string_view key, od::value value) {
    if (key == "bbox") return has_box = read_box(value, raw.box, raw.exact);
    if (key == "area") {
      has_area = value.get_double().get(raw.exact.area) == simdjson::SUCCESS;
      return true;
    }
    if (key == "image_id") return has_image = read_integer(value, raw.image_id);
    if (key == "category_id") return has_category = read_integer(value, raw.category_id);
    if (key == "iscrowd") return read_integer(value, crowd);
    return true;
  });
  if (good && has_box && has_image && has_category) {
    raw.box.crowd = crowd != 0;
    if (!has_area) raw.exact.area = raw.exact.w * raw.exact.h;
    boxes_.push_back(raw);
    return;
  }
  std::string why =
      "bbox must be four numbers [x, y, width, height], image_id and category_id integers";
  if (good)
    why = !has_box     ? "'bbox' is missing"
          : !has_image ? "'image_id' is missing"
                       : "'category_id' is missing";
  if (!raw_.report.wants(Finding::kBadRow)) return raw_.report.add(Finding::kBadRow);
  raw_.report.add(Finding::kBadRow,
                  fmt::format("{}:{}: annotations[{}]: {}", file_.native(),
                              line_of(file_, element.offset), element.index, why));
}

void CocoReader::category(const JsonElement& element) {
  Category category;
  bool has_id = false, has_name = false;
  const bool good = fields(element, [&](std::string_view key, od::value value) {
    if (key == "id") return has_id = read_integer(value, category.id);
    if (key != "name") return true;
    std::string_view text;
    has_name = value.get_string().get(text) == simdjson::SUCCESS;
    category.name = text;
    return has_name;
  });
  if (!good || !has_id || !has_name)
    fail(element, "categories", "needs an integer 'id' and a text 'name'");
  categories_.push_back(std::move(category));
}

std::unordered_map<std::int64_t, std::uint32_t> CocoReader::index_images() {
  std::unordered_map<std::int64_t, std::uint32_t> index;
  index.reserve(raw_.ids.size());
  for (std::size_t i = 0; i < raw_.ids.size(); ++i) {
    if (index.emplace(raw_.ids[i], static_cast<std::uint32_t>(i)).second) continue;
    raw_.mistakes.emplace_back(fmt::format("two images have the id {}: '{}' and '{}'", raw_.ids[i],
                                           raw_.names[index.at(raw_.ids[i])], raw_.names[i]),
                               file_.native());
    break;  // one of this kind
  }
  return index;
}

/// Every category id of the annotations must be listed.
std::vector<std::int32_t> CocoReader::labels_of_boxes(
    const std::unordered_map<std::int64_t, std::int32_t>& label_of) {
  std::vector<std::int32_t> labels(boxes_.size());
  Report unknown;
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const auto found = label_of.find(boxes_[i].category_id);
    if (found != label_of.end()) {
      labels[i] = found->second;
    } else if (unknown.wants(Finding::kBadClass)) {
      unknown.add(Finding::kBadClass, fmt::format("annotations[{}]: category_id {}",
                                                  boxes_[i].ordinal, boxes_[i].category_id));
    } else {
      unknown.add(Finding::kBadClass);
    }
  }
  if (unknown.count(Finding::kBadClass) == 0) return labels;
  std::string text =
      fmt::format("{} annotations have a category_id that 'categories' does not list",
                  unknown.count(Finding::kBadClass));
  for (const std::string& offender : unknown.first(Finding::kBadClass)) text += "\n  " + offender;
  text += "\n  categories:";
  for (const Category& category : categories_)
    text += fmt::format(" {}: {},", category.id, category.name);
  text.pop_back();
  raw_.mistakes.emplace_back(text, file_.native());
  return labels;
}

void CocoReader::arrange(const std::vector<std::int64_t>& ignored_ids) {
  std::unordered_map<std::int64_t, std::int32_t> label_of;
  raw_.ignored_classes.assign(categories_.size(), false);
  for (std::size_t i = 0; i < categories_.size(); ++i) {
    label_of.emplace(categories_[i].id, static_cast<std::int32_t>(i));
    raw_.source_classes.push_back(categories_[i].name);
  }
  for (const std::int64_t id : ignored_ids) {
    const auto found = label_of.find(id);
    if (found == label_of.end()) {
      throw core::InputError(
          fmt::format("class_ids_to_ignore names the category id {}, which is not there", id),
          file_.native());
    }
    raw_.ignored_classes[static_cast<std::size_t>(found->second)] = true;
  }
  const std::vector<std::int32_t> labels = labels_of_boxes(label_of);

  // Counting sort by image; the order of an image's boxes is kept.
  const auto image_of = index_images();
  std::vector<std::uint32_t> images(boxes_.size());
  constexpr std::uint32_t kNone = UINT32_MAX;
  raw_.ends.assign(raw_.names.size(), 0);
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    const auto found = image_of.find(boxes_[i].image_id);
    images[i] = found == image_of.end() ? kNone : found->second;
    if (images[i] != kNone) {
      ++raw_.ends[images[i]];
      continue;
    }
    raw_.report.add(Finding::kBadRow,
                    fmt::format("{}: annotations[{}]: image_id {} is not among the images",
                                file_.native(), boxes_[i].ordinal, boxes_[i].image_id));
  }
  std::partial_sum(raw_.ends.begin(), raw_.ends.end(), raw_.ends.begin());
  const std::size_t total = raw_.ends.empty() ? 0 : raw_.ends.back();
  raw_.boxes.resize(total);
  raw_.exact.resize(total);
  raw_.lines.resize(total);
  std::vector<std::uint64_t> next(raw_.ends.size());
  for (std::size_t i = 1; i < next.size(); ++i) next[i] = raw_.ends[i - 1];
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    if (images[i] == kNone) continue;
    const std::uint64_t at = next[images[i]]++;
    raw_.boxes[at] = boxes_[i].box;
    raw_.boxes[at].label = labels[i];
    raw_.exact[at] = boxes_[i].exact;
    raw_.lines[at] = boxes_[i].ordinal;
  }
}

/// The folder must hold at least one of the first images; nothing is worse than finding out later.
void check_images_folder(RawAnnotations& raw, const std::string& where) {
  const std::size_t tries = std::min<std::size_t>(raw.names.size(), 3);
  std::string tried;
  for (std::size_t i = 0; i < tries; ++i) {
    const std::filesystem::path file = raw.images_root / raw.names[i];
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored)) return;
    tried += "\n  " + file.native();
  }
  if (tries > 0) {
    raw.mistakes.emplace_back("the annotated images are not in the image folder; tried:" + tried,
                              where);
  }
}

RawAnnotations read_coco(const CocoParams& params, const Paths& paths) {
  const auto start = std::chrono::steady_clock::now();
  const DetectionParams& common = params.common;
  const auto root = paths.find(common.data_dir, "data_dir", common.where);
  const Paths inside(root);
  const auto file = inside.find(params.json_annotation_file, "annotation file", common.where);
  RawAnnotations raw;
  raw.images_root = inside.find(params.images_dir.empty() ? "." : params.images_dir, "image folder",
                                common.where);
  raw.with_crowd = params.with_crowd;
  raw.classes_from = file.native();
  raw.report.title = "COCO " + file.native();
  CocoReader reader(file, raw);
  reader.read();
  reader.arrange(params.class_ids_to_ignore);
  const std::string name = file.native();
  raw.place = [name](std::size_t, std::uint32_t ordinal) {
    return fmt::format("{}: annotations[{}]", name, ordinal);
  };
  check_images_folder(raw, common.where);
  raw.report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return raw;
}

/// Any COCO file: {data_dir, json_annotation_file, images_dir}.
class COCOFormatDetectionDataset : public DetectionDataset {
 public:
  struct Params : CocoParams {
    static Params from(core::Node& node) {
      Params p;
      p.read_shared(node);
      p.json_annotation_file =
          node.get<std::string>("json_annotation_file").help("absolute, or below data_dir");
      p.images_dir = node.get<std::string>("images_dir").help("below data_dir");
      return p;
    }
  };
  COCOFormatDetectionDataset(const CocoParams& params, const Paths& paths)
      : DetectionDataset(params.common, read_coco(params, paths)) {}
};

/// The layout of COCO itself: data_dir/annotations/<json_file>, data_dir/<subdir>.
class COCODetectionDataset final : public COCOFormatDetectionDataset {
 public:
  struct Params : CocoParams {
    static Params from(core::Node& node) {
      Params p;
      p.read_shared(node);
      p.json_annotation_file =
          "annotations/" + node.get_or("json_file", "instances_train2017.json").value();
      p.images_dir = node.get_or("subdir", "images/train2017").value();
      return p;
    }
  };
  using COCOFormatDetectionDataset::COCOFormatDetectionDataset;
};

}  // namespace
SGTRAIN_REGISTER(Dataset, COCOFormatDetectionDataset, "COCOFormatDetectionDataset");
SGTRAIN_REGISTER(Dataset, COCODetectionDataset, "COCODetectionDataset");
}  // namespace sgtrain::data
