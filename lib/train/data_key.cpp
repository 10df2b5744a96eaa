#include "train/data_key.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "data/files.h"
#include "data/formats/data_yaml.h"
#include "data/formats/voc_xml.h"
#include "data/json_arrays.h"
#include "recipe/interpolation.h"

namespace sgtrain::train {
namespace fs = std::filesystem;
namespace {

using core::Tree;
using core::TreePtr;
using Keys = std::vector<std::pair<std::string, TreePtr>>;

/// What a path turned out to be.
struct Found {
  std::string dataset;  // class
  fs::path folder;
  std::vector<std::string> names;
  Keys train, val;  // of train_dataset_params and val_dataset_params
};

TreePtr text(const std::string& value) {
  return Tree::of(value);
}

TreePtr texts(const std::vector<std::string>& values) {
  auto list = Tree::make_list();
  for (const std::string& value : values) list->list.push_back(Tree::of(value));
  return list;
}

Found yolo(const fs::path& file) {
  const data::DataYaml yaml = data::DataYaml::read(file);
  yaml.split("train");
  yaml.split("val");
  const auto keys = [&](const char* split) {
    return Keys{{"data_yaml", text(file.string())}, {"split", text(split)}};
  };
  return {"YoloDarknetFormatDetectionDataset", file.parent_path(), yaml.names, keys("train"),
          keys("val")};
}

struct CocoFile {
  std::vector<std::string> names;  // by category id
  std::string first_image;
};

CocoFile read_coco(const fs::path& file) {
  CocoFile out;
  std::vector<std::pair<std::int64_t, std::string>> categories;
  std::vector<data::JsonArray> arrays(2);
  arrays[0] = {"categories", [&](const data::JsonElement& element) {
                 const auto json = nlohmann::json::parse(element.text, nullptr, false);
                 if (json.is_object())
                   categories.emplace_back(json.value("id", std::int64_t{0}),
                                           json.value("name", std::string()));
               }};
  arrays[1] = {"images", [&](const data::JsonElement& element) {
                 if (element.index > 0) return;
                 const auto json = nlohmann::json::parse(element.text, nullptr, false);
                 if (json.is_object()) out.first_image = json.value("file_name", std::string());
               }};
  data::walk_json_arrays(file, arrays);
  std::sort(categories.begin(), categories.end());
  for (auto& [id, name] : categories) out.names.push_back(std::move(name));
  if (out.names.empty()) throw core::InputError("no categories in the file", file.string());
  return out;
}

/// The folder of the pictures, tried in the usual places beside and above the annotation file.
fs::path coco_images(const fs::path& file, const std::string& split, const std::string& image) {
  std::string tried;
  for (const fs::path& base : {file.parent_path(), file.parent_path().parent_path()}) {
    for (const std::string& inner : {"images/" + split, "images/" + split + "2017", split,
                                     split + "2017", std::string("images"), std::string(".")}) {
      const fs::path folder = (base / inner).lexically_normal();
      if (!image.empty() && fs::exists(folder / image)) return folder;
      tried += "\n  " + (folder / image).string();
    }
  }
  throw core::InputError("the pictures of this file are not where they usually are; tried:" + tried,
                         file.string(),
                         "name the folders in the recipe: json_annotation_file, images_dir");
}

Found coco(const fs::path& train, const fs::path& val) {
  Found found{"COCOFormatDetectionDataset", train.parent_path(), {}, {}, {}};
  const auto keys = [&](const fs::path& file, const std::string& split) {
    const CocoFile content = read_coco(file);
    if (found.names.empty()) found.names = content.names;
    return Keys{{"data_dir", text(file.parent_path().string())},
                {"json_annotation_file", text(file.string())},
                {"images_dir", text(coco_images(file, split, content.first_image).string())},
                {"all_classes_list", texts(found.names)},
                {"with_crowd", Tree::of(split == "val")}};
  };
  found.train = keys(train, "train");
  found.val = keys(val, "val");
  return found;
}

/// Names of all objects of the listed annotation files, sorted.
std::vector<std::string> voc_names(const fs::path& folder, const fs::path& list) {
  constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  std::set<std::string> names;
  const data::Folder annotations(folder / "Annotations");
  std::ifstream lines(list);
  std::string line, buffer;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string stem;
    if (!(words >> stem)) continue;
    const auto xml = annotations.read(stem + ".xml", buffer, kMaxBytes);
    if (!xml) continue;
    for (const auto& object : data::parse_voc_xml(*xml, stem + ".xml").objects)
      names.insert(object.name);
  }
  return {names.begin(), names.end()};
}

Found voc(const fs::path& folder) {
  Found found{"PascalVOCFormatDetectionDataset", folder, {}, {}, {}};
  found.names = voc_names(folder, folder / "ImageSets/Main/train.txt");
  const auto keys = [&](const std::string& split) {
    return Keys{{"data_dir", text(folder.string())},
                {"images_dir", text("JPEGImages")},
                {"labels_dir", text("Annotations")},
                {"list_file", text("ImageSets/Main/" + split + ".txt")},
                {"all_classes_list", texts(found.names)}};
  };
  found.train = keys("train");
  found.val = keys("val");
  return found;
}

std::optional<Found> image_folders(const fs::path& folder) {
  if (!fs::is_directory(folder / "train")) return std::nullopt;
  for (const char* split : {"val", "valid", "test"}) {
    if (!fs::is_directory(folder / split)) continue;
    Found found{"ImageFolder", folder, {}, {}, {}};
    for (const auto& entry : data::read_folder(folder / "train")) {
      if (entry.folder && !entry.name.starts_with('.')) found.names.push_back(entry.name);
    }
    std::sort(found.names.begin(), found.names.end());
    found.train = {{"root", text((folder / "train").string())}};
    found.val = {{"root", text((folder / split).string())}};
    if (!found.names.empty()) return found;
  }
  return std::nullopt;
}

/// The one annotation file whose name holds the split.
std::optional<fs::path> annotations_of(const fs::path& folder, const std::string& split) {
  std::vector<fs::path> files;
  for (const fs::path& place : {folder / "annotations", folder}) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(place, error)) {
      const std::string name = entry.path().filename().string();
      const bool other = name.starts_with("captions") || name.starts_with("person_keypoints");
      if (entry.path().extension() == ".json" && name.find(split) != std::string::npos && !other)
        files.push_back(entry.path());
    }
    if (files.size() == 1) return files.front();
    if (files.size() > 1) {
      throw core::InputError("several annotation files are for '" + split + "'", place.string(),
                             "name the pair: data=[train.json,val.json]");
    }
  }
  return std::nullopt;
}

Found recognise(const fs::path& path) {
  if (fs::is_regular_file(path)) {
    const std::string suffix = core::lower(path.extension().string());
    if (suffix == ".yaml" || suffix == ".yml") return yolo(path);
    throw core::InputError("one file can only be a data.yaml", path.string(),
                           "COCO files come as a pair: data=[train.json,val.json]");
  }
  if (!fs::is_directory(path)) {
    throw core::InputError("there is no such file or folder", path.string(),
                           "data takes a data.yaml, a folder, or [train.json,val.json]");
  }
  for (const char* name : {"data.yaml", "data.yml"}) {
    if (fs::exists(path / name)) return yolo(path / name);
  }
  if (fs::is_directory(path / "Annotations") && fs::is_directory(path / "JPEGImages") &&
      fs::exists(path / "ImageSets/Main/train.txt")) {
    return voc(path);
  }
  const auto train = annotations_of(path, "train"), val = annotations_of(path, "val");
  if (train && val) return coco(*train, *val);
  if (auto found = image_folders(path)) return *found;
  throw core::InputError(
      "this folder is of no known kind", path.string(),
      "expected data.yaml; annotations/*train*.json and *val*.json; JPEGImages, Annotations and "
      "ImageSets; or train/ and val/ with one folder for each class");
}

/// The section keeps its pictures' treatment and takes the files of the new data set.
void set_section(const TreePtr& data, const std::string& name, const Found& found,
                 const Keys& keys) {
  static const std::set<std::string> kept{
      "transforms",     "input_dim", "ignore_empty_annotations", "max_num_samples", "honor_exif",
      "reduced_decode", "skip_bad"};
  const bool folders = found.dataset == "ImageFolder";
  const TreePtr section = data->find(name + "_dataset_params");
  auto fresh = Tree::make_map(section ? section->mark : core::Mark{});
  for (const auto& [key, value] : keys) fresh->set(key, value);
  for (std::size_t i = 0; section && i < section->map.size(); ++i) {
    const auto& [key, value] = section->map[i];
    const bool keep = folders ? key == "transforms" || key == "honor_exif" : kept.contains(key);
    if (keep) fresh->set(key, value);
  }
  data->set(name + "_dataset_params", fresh);
  TreePtr loader = data->find(name + "_dataloader_params");
  if (!loader || !loader->is_map())
    data->set(name + "_dataloader_params", loader = Tree::make_map());
  loader->set("dataset", Tree::of(found.dataset));
}

/// Plain numbers of classes anywhere below; interpolations follow by themselves.
void set_class_counts(Tree& tree, std::int64_t classes) {
  for (auto& [key, value] : tree.map) {
    const bool count = key == "num_classes" || key == "num_cls";
    if (count && value->kind == Tree::Kind::kInt) value = Tree::of(classes, value->mark);
    set_class_counts(*value, classes);
  }
  for (const TreePtr& item : tree.list) set_class_counts(*item, classes);
}

/// A variable of the recipe gets the new value, or goes when nothing uses it any more.
void set_variable(const TreePtr& root, const std::string& key, const TreePtr& value) {
  if (!root->find(key)) return;
  if (recipe::is_variable(*root, key)) {
    root->set(key, value);
  } else {
    root->erase(key);
  }
}

fs::path absolute(const std::string& name) {
  const fs::path path = fs::absolute(name).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

void apply_data_key(const TreePtr& root, core::Problems& problems) {
  const TreePtr value = root->find("data");
  if (!value || value->is_map()) return;  // a map is a group of the recipe's own
  root->erase("data");
  if (value->kind == Tree::Kind::kNull) return;
  Found found;
  try {
    const bool pair = value->is_list() && value->list.size() == 2;
    if (!pair && value->kind != Tree::Kind::kString)
      throw core::InputError("takes a path or a pair [train.json,val.json]");
    found = pair ? coco(absolute(value->list[0]->text), absolute(value->list[1]->text))
                 : recognise(absolute(value->text));
  } catch (const core::Error& error) {
    return problems.add(value->mark.str(), "data", error.what());
  }
  TreePtr data = root->find("dataset_params");
  if (!data || !data->is_map()) root->set("dataset_params", data = Tree::make_map());
  set_section(data, "train", found, found.train);
  set_section(data, "val", found, found.val);
  data->set("class_names", texts(found.names));
  const auto classes = static_cast<std::int64_t>(found.names.size());
  if (const TreePtr count = data->find("num_classes"); count)
    data->set("num_classes", Tree::of(classes));
  TreePtr arch = root->find("arch_params");
  if (!arch || !arch->is_map()) root->set("arch_params", arch = Tree::make_map());
  arch->set("num_classes", Tree::of(classes));
  set_class_counts(*arch, classes);
  if (const TreePtr training = root->find("training_hyperparams"))
    set_class_counts(*training, classes);
  set_variable(root, "class_names", texts(found.names));
  set_variable(root, "data_dir", Tree::of(found.folder.string()));
}

}  // namespace sgtrain::train
