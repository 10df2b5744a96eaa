// Every data set can say what its keys are (`sgtrain list datasets`).
#include <catch2/catch.hpp>

#include <algorithm>

#include "data/dataset.h"

namespace sgtrain::data {
namespace {

TEST_CASE("data sets of the reference are registered and describe their keys") {
  const auto& registry = Dataset::registry();
  const std::vector<std::pair<std::string, std::vector<std::string>>> expected = {
      {"Cifar10", {"root", "train"}},
      {"Cifar100", {"root", "train"}},
      {"ImageNetDataset", {"root"}},
      {"ImageFolder", {"root"}},
      {"Mnist", {"root", "train"}},
      {"IDXDataset", {"images", "labels", "class_names"}},
      {"COCODetectionDataset", {"data_dir", "json_file", "subdir", "with_crowd", "input_dim"}},
      {"coco_format_detection_dataset",
       {"json_annotation_file", "images_dir", "class_ids_to_ignore"}},
      {"YoloDarknetFormatDetectionDataset",
       {"images_dir", "labels_dir", "classes", "ignore_invalid_labels"}},
      {"PascalVOCFormatDetectionDataset", {"images_dir", "labels_dir", "all_classes_list"}},
      {"PascalVOCDetectionDataset", {"images_dir", "labels_dir", "max_num_samples"}}};
  for (const auto& [name, keys] : expected) {
    CAPTURE(name);
    const auto* entry = registry.find(name);
    REQUIRE(entry != nullptr);
    const auto docs = Dataset::Registry::describe(*entry);
    for (const std::string& key : keys) {
      CAPTURE(key);
      CHECK(std::any_of(docs.begin(), docs.end(),
                        [&](const core::KeyDoc& doc) { return doc.key == key; }));
    }
  }
  CHECK(registry.find("CocoDetection") == nullptr);
}

}  // namespace
}  // namespace sgtrain::data
