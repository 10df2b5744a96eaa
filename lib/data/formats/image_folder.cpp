// One folder per class: root/<class>/….jpg; class ids by sorted folder name.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/registry.h"
#include "data/dataset.h"
#include "data/files.h"
#include "data/string_pool.h"
#include "image/image.h"

namespace sgtrain::data {
namespace {

class ImageFolder final : public Dataset {
 public:
  struct Params {
    std::string where;
    std::string root;        // folder of class folders
    bool honor_exif = true;  // turn photos upright
    static Params from(core::Node& node) {
      return {
          .where = node.where(),
          .root = node.get<std::string>("root").help("folder of class folders"),
          .honor_exif = node.get_or("honor_exif", true).help("turn photos upright as EXIF says")};
    }
  };

  ImageFolder(const Params& params, const Paths& paths)
      : params_(params), root_(paths.find(params.root, "root", params.where)) {
    const auto start = std::chrono::steady_clock::now();
    report_.title = "images " + root_.native();
    for (const FolderEntry& entry : read_folder(root_)) {
      if (entry.folder && !entry.name.starts_with('.')) classes_.push_back(entry.name);
    }
    std::sort(classes_.begin(), classes_.end());
    if (classes_.empty()) {
      throw core::InputError("no class folders in " + root_.native(), params.where,
                             "put the images of each class into a folder named after it");
    }
    for (std::size_t label = 0; label < classes_.size(); ++label) add_class(label);
    if (labels_.empty()) {
      throw core::InputError("no images in the class folders of " + root_.native(), params.where);
    }
    report_.images = report_.with_boxes = report_.kept = size();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Task task() const override { return Task::kClassification; }
  std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  const Report& report() const override { return report_; }

  Annotation annotation(std::int64_t index) const override {
    return {.label = labels_.at(static_cast<std::size_t>(index)), .boxes = {}, .image_id = index};
  }
  std::string image_path(std::int64_t index) const override {
    const auto at = static_cast<std::size_t>(index);
    return (root_ / classes_[static_cast<std::size_t>(labels_.at(at))] / files_[at]).native();
  }
  Sample load(std::int64_t index) const override {
    Sample sample;
    sample.label = labels_.at(static_cast<std::size_t>(index));
    const std::string path = image_path(index);
    image::Decoded decoded = image::decode_file(path, {.honor_exif = params_.honor_exif});
    sample.image = std::move(decoded.image);
    sample.warning = std::move(decoded.warning);
    sample.original_size = decoded.full_size;
    sample.index = sample.image_id = index;
    sample.name = std::string(files_[static_cast<std::size_t>(index)]);
    return sample;
  }

 private:
  void add_class(std::size_t label) {
    const auto files = list_files(root_ / classes_[label], [](std::string_view name) {
      return image::has_image_suffix(name);
    });
    if (files.empty()) report_.warnings.push_back("no images of class '" + classes_[label] + "'");
    for (const std::string& file : files) {
      files_.add(file);
      labels_.push_back(static_cast<std::int32_t>(label));
    }
  }

  Params params_;
  std::filesystem::path root_;
  std::vector<std::string> classes_;
  StringPool files_;  // below the class folder
  std::vector<std::int32_t> labels_;
  Report report_;
};

}  // namespace
SGTRAIN_REGISTER(Dataset, ImageFolder, "ImageNetDataset", "ImageFolder");
}  // namespace sgtrain::data
