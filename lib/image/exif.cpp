#include "image/exif.h"

#include <algorithm>
#include <string_view>

namespace sgtrain::image {
namespace {

constexpr std::uint16_t kOrientationTag = 0x0112;

/// Reads numbers in the byte order that the TIFF header names; out of range reads give nullopt.
class TiffReader {
 public:
  explicit TiffReader(Bytes bytes) : bytes_(bytes) {}

  bool open() {
    if (bytes_.size() < 8) return false;
    little_ = bytes_[0] == 'I' && bytes_[1] == 'I';
    const bool big = bytes_[0] == 'M' && bytes_[1] == 'M';
    return (little_ || big) && u16(2) == 42U;
  }
  std::optional<std::uint32_t> u16(std::size_t at) const {
    if (at + 2 > bytes_.size()) return std::nullopt;
    return little_ ? bytes_[at] | bytes_[at + 1] << 8 : bytes_[at] << 8 | bytes_[at + 1];
  }
  std::optional<std::uint32_t> u32(std::size_t at) const {
    const auto first = u16(at);
    const auto second = u16(at + 2);
    if (!first || !second) return std::nullopt;
    return little_ ? *first | *second << 16 : *first << 16 | *second;
  }

 private:
  Bytes bytes_;
  bool little_ = false;
};

}  // namespace

std::optional<std::uint32_t> tiff_tag(Bytes tiff, std::uint16_t tag) {
  constexpr std::size_t kEntryBytes = 12;
  constexpr std::uint32_t kShort = 3, kLong = 4;
  TiffReader reader(tiff);
  if (!reader.open()) return std::nullopt;
  const auto directory = reader.u32(4);
  const auto entries = directory ? reader.u16(*directory) : std::nullopt;
  if (!entries) return std::nullopt;
  for (std::size_t i = 0; i < *entries; ++i) {
    const std::size_t at = std::size_t{*directory} + 2 + i * kEntryBytes;
    if (at + kEntryBytes > tiff.size()) return std::nullopt;
    if (reader.u16(at) != tag) continue;
    const auto type = reader.u16(at + 2);
    if (type == kShort) return reader.u16(at + 8);
    if (type == kLong) return reader.u32(at + 8);
    return std::nullopt;
  }
  return std::nullopt;
}

int exif_orientation(Bytes exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (exif.size() >= kPrefix.size() && std::equal(kPrefix.begin(), kPrefix.end(), exif.begin())) {
    exif = exif.subspan(kPrefix.size());
  }
  const auto value = tiff_tag(exif, kOrientationTag).value_or(1);
  return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
}

}  // namespace sgtrain::image
