// Looks at every picture of a data set without training (`sgtrain data check`, `check --data`).
#pragma once

#include "data/dataset.h"

namespace sgtrain::data {

enum class CheckDepth {
  kHeaders,  // sizes from the files' headers
  kDecode,   // every picture decoded: finds truncated files
};

/// Missing and unreadable pictures, damaged ones (kDecode), and annotated sizes that are not the
/// picture's, with a remark when they are those of the picture before its EXIF rotation.
/// `images` counts what was looked at. All processors are used; file:name order of offenders.
Report check_images(const Dataset& dataset, CheckDepth depth);

}  // namespace sgtrain::data
