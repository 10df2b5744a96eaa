// Formats and sizes from headers alone.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>

#include "image/codecs.h"
#include "image/exif.h"

namespace sgtrain::image {
namespace {

bool starts_with(Bytes bytes, std::string_view text, std::size_t at = 0) {
  return bytes.size() >= at + text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

std::uint32_t big16(Bytes b, std::size_t at) {
  return b[at] << 8 | b[at + 1];
}
std::uint32_t big32(Bytes b, std::size_t at) {
  return big16(b, at) << 16 | big16(b, at + 2);
}
std::uint32_t little16(Bytes b, std::size_t at) {
  return b[at] | b[at + 1] << 8;
}
std::uint32_t little24(Bytes b, std::size_t at) {
  return little16(b, at) | b[at + 2] << 16;
}
std::uint32_t little32(Bytes b, std::size_t at) {
  return little16(b, at) | little16(b, at + 2) << 16;
}

/// Walks the segments up to the frame header (SOF). Bytes between segments are skipped, as libjpeg
/// does.
std::optional<Info> probe_jpeg(Bytes bytes) {
  Info info{.format = Format::kJpeg};
  std::size_t at = 2;
  while (at + 4 <= bytes.size()) {
    if (bytes[at] != 0xFF || bytes[at + 1] == 0xFF || bytes[at + 1] == 0x00) {
      ++at;
      continue;
    }
    const std::uint8_t marker = bytes[at + 1];
    const bool bare = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (bare) {
      at += 2;
      continue;
    }
    if (marker == 0xD9 || marker == 0xDA) return std::nullopt;  // end or scan before any frame
    const std::size_t length = big16(bytes, at + 2);
    const bool frame =
        marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) {
      if (at + 9 > bytes.size()) return std::nullopt;
      info.stored = {static_cast<int>(big16(bytes, at + 7)),
                     static_cast<int>(big16(bytes, at + 5))};
      return info;
    }
    if (marker == 0xE1 && info.orientation == 1 && starts_with(bytes, {"Exif\0\0", 6}, at + 4)) {
      const std::size_t end = std::min(bytes.size(), at + 2 + length);
      info.orientation = exif_orientation(bytes.subspan(at + 4, end - at - 4));
    }
    at += 2 + std::max<std::size_t>(length, 2);
  }
  return std::nullopt;
}

/// eXIf may stand anywhere before the end; a header-only read may not reach it.
std::optional<Info> probe_png(Bytes bytes) {
  if (bytes.size() < 24 || !starts_with(bytes, "IHDR", 12)) return std::nullopt;
  const std::uint32_t width = big32(bytes, 16), height = big32(bytes, 20);
  if (width > 0x7fffffff || height > 0x7fffffff) return std::nullopt;
  Info info{.format = Format::kPng, .stored = {static_cast<int>(width), static_cast<int>(height)}};
  for (std::size_t at = 8; at + 12 <= bytes.size();) {
    const std::size_t length = big32(bytes, at);
    if (starts_with(bytes, "eXIf", at + 4) && length <= bytes.size() - at - 8) {
      info.orientation = exif_orientation(bytes.subspan(at + 8, length));
      break;
    }
    at += 12 + length;
  }
  return info;
}

/// RIFF container (WebP container specification): VP8X names the canvas, VP8 and VP8L the frame.
std::optional<Info> probe_webp(Bytes bytes) {
  Info info{.format = Format::kWebp};
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    const std::size_t length = little32(bytes, at + 4);
    const std::size_t body = at + 8;
    const bool whole = body + 10 <= bytes.size();
    if (starts_with(bytes, "VP8X", at) && whole) {
      info.stored = {static_cast<int>(little24(bytes, body + 4) + 1),
                     static_cast<int>(little24(bytes, body + 7) + 1)};
    } else if (starts_with(bytes, "VP8 ", at) && whole && info.stored.empty()) {
      info.stored = {static_cast<int>(little16(bytes, body + 6) & 0x3FFF),
                     static_cast<int>(little16(bytes, body + 8) & 0x3FFF)};
    } else if (starts_with(bytes, "VP8L", at) && whole && info.stored.empty()) {
      const std::uint32_t packed = little32(bytes, body + 1);
      info.stored = {static_cast<int>((packed & 0x3FFF) + 1),
                     static_cast<int>((packed >> 14 & 0x3FFF) + 1)};
    } else if (starts_with(bytes, "EXIF", at) && body < bytes.size()) {
      info.orientation =
          exif_orientation(bytes.subspan(body, std::min(length, bytes.size() - body)));
    }
    at = body + length + (length & 1);
  }
  if (info.stored.empty()) return std::nullopt;
  return info;
}

std::optional<Info> probe_bmp(Bytes bytes) {
  if (bytes.size() < 26) return std::nullopt;
  Info info{.format = Format::kBmp};
  if (little32(bytes, 14) == 12) {
    info.stored = {static_cast<int>(little16(bytes, 18)), static_cast<int>(little16(bytes, 20))};
  } else {  // a negative height means top-down rows
    const auto height = static_cast<std::int32_t>(little32(bytes, 22));
    info.stored = {static_cast<std::int32_t>(little32(bytes, 18)),
                   height == INT32_MIN ? 0 : std::abs(height)};
  }
  return info;
}

std::optional<Info> probe_tiff(Bytes bytes) {
  const auto width = tiff_tag(bytes, 256), height = tiff_tag(bytes, 257);
  if (!width || !height || *width > 0x7fffffff || *height > 0x7fffffff) return std::nullopt;
  return Info{.format = Format::kTiff,
              .stored = {static_cast<int>(*width), static_cast<int>(*height)}};
}

std::optional<Info> probe_gif(Bytes bytes) {
  if (bytes.size() < 10) return std::nullopt;
  return Info{
      .format = Format::kGif,
      .stored = {static_cast<int>(little16(bytes, 6)), static_cast<int>(little16(bytes, 8))}};
}

/// "P6 width height max", blanks and #-comments between.
std::optional<Info> probe_pnm(Bytes bytes) {
  int values[2] = {0, 0};
  std::size_t at = 2;
  for (int& value : values) {
    while (at < bytes.size() && (std::isspace(bytes[at]) != 0 || bytes[at] == '#')) {
      if (bytes[at] == '#') {
        while (at < bytes.size() && bytes[at] != '\n') ++at;
      } else {
        ++at;
      }
    }
    for (; at < bytes.size() && std::isdigit(bytes[at]) != 0; ++at) {
      if (value > 100'000'000) return std::nullopt;
      value = value * 10 + (bytes[at] - '0');
    }
  }
  return Info{.format = Format::kPnm, .stored = {values[0], values[1]}};
}

std::optional<Info> probe_format(Bytes bytes, Format format) {
  switch (format) {
    case Format::kJpeg:
      return probe_jpeg(bytes);
    case Format::kPng:
      return probe_png(bytes);
    case Format::kWebp:
      return probe_webp(bytes);
    case Format::kBmp:
      return probe_bmp(bytes);
    case Format::kTiff:
      return probe_tiff(bytes);
    case Format::kGif:
      return probe_gif(bytes);
    case Format::kPnm:
      return probe_pnm(bytes);
    case Format::kUnknown:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::kJpeg:
      return "JPEG";
    case Format::kPng:
      return "PNG";
    case Format::kWebp:
      return "WebP";
    case Format::kBmp:
      return "BMP";
    case Format::kTiff:
      return "TIFF";
    case Format::kGif:
      return "GIF";
    case Format::kPnm:
      return "PNM";
    case Format::kUnknown:
      break;
  }
  return "unknown";
}

Format detect_format(Bytes bytes) {
  if (starts_with(bytes, "\xFF\xD8\xFF")) return Format::kJpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1A\n")) return Format::kPng;
  if (starts_with(bytes, "RIFF") && starts_with(bytes, "WEBP", 8)) return Format::kWebp;
  if (starts_with(bytes, "BM")) return Format::kBmp;
  if (starts_with(bytes, {"II*\0", 4}) || starts_with(bytes, {"MM\0*", 4})) return Format::kTiff;
  if (starts_with(bytes, "GIF8")) return Format::kGif;
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
      std::isspace(bytes[2]) != 0) {
    return Format::kPnm;
  }
  return Format::kUnknown;
}

Info probe(Bytes bytes, std::string_view name) {
  if (bytes.empty()) fail_decode(name, "the file is empty");
  const Format format = detect_format(bytes);
  if (format == Format::kUnknown) fail_decode(name, "not a picture in a known format");
  const auto info = probe_format(bytes, format);
  if (!info || info->stored.width <= 0 || info->stored.height <= 0) {
    fail_decode(name, std::string("damaged ") + std::string(format_name(format)) + " header");
  }
  return *info;
}

}  // namespace sgtrain::image
