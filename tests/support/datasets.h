// Opens data sets from YAML text, as a recipe would. For tests.
#pragma once

#include <memory>
#include <string>

#include "data/dataset.h"

namespace sgtrain::support {

/// `yaml`: the map of a `*_dataset_params`. Every key must be read by the data set.
/// Throws core::InputError with everything that is wrong.
std::unique_ptr<data::Dataset> open_dataset(const std::string& name, const std::string& yaml,
                                            const data::Paths& paths = {});

/// Message of the core::InputError that open_dataset() throws; "opened" when it does not.
std::string open_error(const std::string& name, const std::string& yaml,
                       const data::Paths& paths = {});

}  // namespace sgtrain::support
