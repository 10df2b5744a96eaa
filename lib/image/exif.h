// The one EXIF tag that matters here: orientation (EXIF 2.32, tag 0x0112; TIFF 6.0 layout).
#pragma once

#include <cstdint>
#include <optional>

#include "image/image.h"

namespace sgtrain::image {

/// Value of a SHORT or LONG tag of the first directory of a TIFF structure ("II*\0" or "MM\0*").
/// nullopt when the tag is absent or the structure is damaged.
std::optional<std::uint32_t> tiff_tag(Bytes tiff, std::uint16_t tag);

/// Orientation 1..8 of an EXIF block, with or without the leading "Exif\0\0"; 1 when absent or
/// damaged.
int exif_orientation(Bytes exif);

}  // namespace sgtrain::image
