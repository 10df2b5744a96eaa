#include "train/dataloader_names.h"

#include <utility>

#include "core/text.h"

namespace sgtrain::train {
namespace {

/// `*` stands for `train` or `val`.
constexpr std::pair<const char*, const char*> kLoaders[] = {
    {"coco2017_*", "COCODetectionDataset"},
    {"coco2017_*_yolo_nas", "COCODetectionDataset"},
    {"coco2017_*_ppyoloe", "COCODetectionDataset"},
    {"coco2017_*_yolox", "COCODetectionDataset"},
    {"coco2017_*_ssd_lite_mobilenet_v2", "COCODetectionDataset"},
    {"coco_detection_yolo_format_*", "YoloDarknetFormatDetectionDataset"},
    {"pascal_voc_detection_*", "PascalVOCDetectionDataset"},
    {"imagenet_*", "ImageNetDataset"},
    {"imagenet_efficientnet_*", "ImageNetDataset"},
    {"imagenet_mobilenetv2_*", "ImageNetDataset"},
    {"imagenet_mobilenetv3_*", "ImageNetDataset"},
    {"imagenet_regnetY_*", "ImageNetDataset"},
    {"imagenet_resnet50_*", "ImageNetDataset"},
    {"imagenet_resnet50_kd_*", "ImageNetDataset"},
    {"imagenet_vit_base_*", "ImageNetDataset"},
    {"tiny_imagenet_*", "ImageNetDataset"},
    {"cifar10_*", "Cifar10"},
    {"cifar100_*", "Cifar100"},
};

std::string spell(std::string pattern, const char* split) {
  return pattern.replace(pattern.find('*'), 1, split);
}

}  // namespace

std::optional<std::string> dataset_of_loader(std::string_view loader) {
  const std::string wanted = core::fuzzy_key(loader);
  for (const auto& [pattern, dataset] : kLoaders) {
    for (const char* split : {"train", "val"}) {
      if (core::fuzzy_key(spell(pattern, split)) == wanted) return dataset;
    }
  }
  return std::nullopt;
}

std::vector<std::string> loader_names() {
  std::vector<std::string> names;
  for (const auto& [pattern, dataset] : kLoaders) {
    names.push_back(spell(pattern, "train"));
    names.push_back(spell(pattern, "val"));
  }
  return names;
}

}  // namespace sgtrain::train
