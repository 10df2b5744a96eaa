#include "predict/source.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "data/dataset.h"
#include "image/image.h"
#include "predict/inputs.h"

namespace sgtrain::predict {
namespace fs = std::filesystem;
namespace {

class Files final : public Source {
 public:
  explicit Files(std::vector<fs::path> files) : files_(std::move(files)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Picture next() override {
    const fs::path& file = files_.at(next_++);
    return {.file = file, .rgb = image::decode_file(file).image};
  }

 private:
  std::vector<fs::path> files_;
  std::size_t next_ = 0;
};

class IdxImages final : public Source {
 public:
  IdxImages(std::unique_ptr<data::Dataset> dataset, int limit)
      : dataset_(std::move(dataset)),
        size_(limit > 0 ? std::min<std::int64_t>(limit, dataset_->size()) : dataset_->size()) {}
  std::int64_t size() const override { return size_; }
  Picture next() override {
    const std::int64_t index = next_++;
    return {.file = dataset_->image_path(index), .rgb = dataset_->load(index).image};
  }

 private:
  std::unique_ptr<data::Dataset> dataset_;
  std::int64_t size_, next_ = 0;
};

bool is_idx(const std::string& name) {
  return fs::path(name).filename().string().find("-idx3-ubyte") != std::string::npos;
}

/// An IDX image file beside its labels, as the MNIST family ships them.
std::unique_ptr<Source> open_idx(const std::string& images, int limit) {
  std::string labels = images;
  const auto at = labels.rfind("images-idx3");
  if (at == std::string::npos) {
    throw core::InputError("the labels of this file cannot be found", images,
                           "its name must contain 'images-idx3'");
  }
  labels.replace(at, std::string("images-idx3").size(), "labels-idx1");
  auto params = core::Tree::make_map();
  params->set("images", core::Tree::of(images));
  params->set("labels", core::Tree::of(labels));
  const auto problems = std::make_shared<core::Problems>();
  const auto make = data::Dataset::registry().parse(
      {.name = "IDXDataset", .params = core::Node(params, problems)});
  problems->throw_if_any(images);
  return std::make_unique<IdxImages>(make(data::Paths{}), limit);
}

}  // namespace

std::unique_ptr<Source> open_source(const std::vector<std::string>& names, bool recursive,
                                    int limit) {
  if (names.size() == 1 && is_idx(names.front()) && fs::is_regular_file(names.front()))
    return open_idx(names.front(), limit);
  auto files = find_images(names, recursive);
  if (limit > 0 && files.size() > static_cast<std::size_t>(limit))
    files.resize(static_cast<std::size_t>(limit));
  return std::make_unique<Files>(std::move(files));
}

std::vector<std::int64_t> apply_coco_ids(const fs::path& annotations,
                                         const std::vector<std::string>& class_names,
                                         std::vector<Result>& results) {
  std::ifstream stream(annotations);
  if (!stream) throw core::InputError("cannot open", annotations.string());
  const auto json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("images") || !json.contains("categories")) {
    throw core::InputError("this is no COCO annotation file (no images, categories)",
                           annotations.string());
  }
  std::map<std::string, std::int64_t> images, categories;
  for (const auto& image : json["images"]) {
    images[fs::path(image.value("file_name", "")).filename().string()] =
        image.value("id", std::int64_t{-1});
  }
  for (const auto& category : json["categories"]) {
    categories[category.value("name", "")] = category.value("id", std::int64_t{-1});
  }
  for (Result& result : results) {
    const auto found = images.find(result.file.filename().string());
    if (found == images.end()) {
      throw core::InputError("this image is not in " + annotations.string(), result.file.string(),
                             "predict on the images that the file lists");
    }
    result.image_id = found->second;
  }
  std::vector<std::int64_t> ids;
  std::vector<std::string> known;
  for (const auto& [name, id] : categories) known.push_back(name);
  for (const std::string& name : class_names) {
    const auto found = categories.find(name);
    if (found == categories.end()) {
      throw core::InputError(
          "class '" + name + "' is no category of this file" + core::did_you_mean(name, known),
          annotations.string());
    }
    ids.push_back(found->second);
  }
  return ids;
}

}  // namespace sgtrain::predict
