// Pictures in and out. One decoder serves every command: an image is a `cv::Mat` of type CV_8UC3
// in **RGB** order, upright, wherever it travels in sgtrain (OpenCV's habit of BGR ends here).
//
// JPEG, PNG and WebP are decoded with their own libraries; everything else (BMP, TIFF, GIF, …, and
// CMYK JPEG) goes to the module `sgtrain_opencv_io`, opened on first use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sgtrain::image {

using Bytes = std::span<const std::uint8_t>;

enum class Format { kUnknown, kJpeg, kPng, kWebp, kBmp, kTiff, kGif, kPnm };
std::string_view format_name(Format format);

/// By the first bytes, never by the file's name.
Format detect_format(Bytes bytes);

/// True for the suffixes of pictures that the decoder reads, in any case (".JPG").
bool has_image_suffix(const std::filesystem::path& path);

/// What becomes of transparency: composed over black (colour = c * a / 255), or the alpha channel
/// is left out and hidden colours show (as OpenCV and PIL's convert("RGB") do).
enum class Alpha { kOverBlack, kDrop };

struct DecodeOptions {
  /// Turn the image upright as its EXIF orientation says (JPEG, PNG and WebP).
  bool honor_exif = true;
  /// When > 0, a JPEG may be decoded at 1/2, 1/4 or 1/8 as long as it stays at least this large on
  /// both sides (upright). Faster, but not the pixels of a full decode followed by a resize.
  int min_width = 0;
  int min_height = 0;
  Alpha alpha = Alpha::kOverBlack;
  /// A damaged file yields what could be read (with a warning) instead of an error.
  bool allow_truncated = true;
  /// Refuse larger pictures before allocating (default: 179 million pixels, 0.5 GB as RGB).
  std::int64_t max_pixels = 178'956'970;
};

/// A decoded picture.
struct Decoded {
  cv::Mat image;       // CV_8UC3, RGB, upright
  cv::Size full_size;  // upright size in the file; differs from image.size() after a reduced decode
  std::string warning;  // not empty when the file is damaged, with its name
};

/// What the header says; no pixel is decoded.
struct Info {
  Format format = Format::kUnknown;
  cv::Size stored{};    // as in the file
  int orientation = 1;  // EXIF, 1..8
  /// Size after applying the orientation: what labels use.
  cv::Size upright() const {
    return orientation >= 5 ? cv::Size(stored.height, stored.width) : stored;
  }
};

/// Decodes a picture. `name` is used in messages. Gray becomes 3 equal channels; palettes are
/// expanded; 1-bit becomes 0/255; 16-bit is divided by 257 (rounded), not clipped; CMYK and YCCK
/// are converted (Adobe's inversion respected); alpha as the option says. Errors: core::Error with
/// the name, when nothing can be decoded.
Decoded decode(Bytes bytes, std::string_view name, const DecodeOptions& options = {});
Decoded decode_file(const std::filesystem::path& path, const DecodeOptions& options = {});

/// Errors: core::Error with the name, when this is not a picture.
Info probe(Bytes bytes, std::string_view name);
Info probe_file(const std::filesystem::path& path);

/// Whole file in memory. Errors: core::Error with path and reason; larger than `max_bytes`.
std::vector<std::uint8_t> read_file(const std::filesystem::path& path,
                                    std::int64_t max_bytes = std::int64_t{1} << 31);

/// Turns stored pixels upright (orientation 1..8 of EXIF 2.32, tag 0x0112).
cv::Mat apply_orientation(const cv::Mat& image, int orientation);

/// `image`: CV_8UC3 RGB or CV_8UC1. Quality 1..100 (4:2:0, as libjpeg's default).
std::vector<std::uint8_t> encode_jpeg(const cv::Mat& image, int quality = 95);
/// `image`: CV_8UC3 RGB, CV_8UC1 or CV_8UC4 RGBA; CV_16UC1/3 are written as 16-bit.
std::vector<std::uint8_t> encode_png(const cv::Mat& image, int compression = 3);
/// Writes by suffix: .jpg/.jpeg, .png; others through the module. The file appears whole or not
/// at all; missing folders are made.
void write_file(const std::filesystem::path& path, const cv::Mat& image, int quality = 95);

}  // namespace sgtrain::image
