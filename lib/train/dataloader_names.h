// SuperGradients' registered loader functions, by the data set class that each one opens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::train {

/// "coco2017_train_yolo_nas" → "COCODetectionDataset"; nullopt when unknown.
std::optional<std::string> dataset_of_loader(std::string_view loader);
std::vector<std::string> loader_names();

}  // namespace sgtrain::train
