// The data sets of the Roboflow-100 benchmark and how many classes each has.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::recipe {

/// Classes of a data set by its official name; nullopt when it is not one of the 100.
std::optional<int> roboflow_classes(std::string_view dataset);
std::vector<std::string> roboflow_datasets();

}  // namespace sgtrain::recipe
