// Makers of image files that our own encoders do not write: EXIF blocks, CMYK JPEG, PNG of any
// kind, BMP. For tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace sgtrain::support {

using FileBytes = std::vector<std::uint8_t>;

/// RGB picture in which every pixel differs from its mirror images: smooth (JPEG keeps it within a
/// few levels) and not symmetric.
cv::Mat gradient_image(int width, int height);

/// JPEG with an EXIF block of one tag inserted behind SOI. `big_endian`: Motorola byte order.
FileBytes with_exif(const FileBytes& jpeg, int orientation, bool big_endian = false);

/// `inks`: CV_8UC4, 255 = full ink. With Adobe's marker the stored values are inverted, as Adobe's
/// programs do.
FileBytes cmyk_jpeg(const cv::Mat& inks, bool adobe, bool ycck);

struct PngSpec {
  int width = 0, height = 0;
  int bit_depth = 8;
  int color_type = 0;                   // PNG's: 0 gray, 2 RGB, 3 palette, 4 gray+alpha, 6 RGBA
  std::vector<std::uint8_t> palette{};  // RGB triples
  std::vector<std::uint8_t> transparency{};       // alpha of palette entries
  std::vector<std::vector<std::uint8_t>> rows{};  // packed as PNG stores them
  int orientation = 1;                            // written as eXIf when not 1
  bool interlaced = false;
};
FileBytes make_png(const PngSpec& spec);

/// 24-bit BMP of an RGB image.
FileBytes make_bmp(const cv::Mat& rgb);
/// Lossless WebP of an RGB or RGBA image.
FileBytes make_webp(const cv::Mat& image);

void write_bytes(const std::filesystem::path& path, const FileBytes& bytes);
void write_text(const std::filesystem::path& path, const std::string& text);

/// Largest absolute difference of two images; 1000 when sizes or types differ.
double max_difference(const cv::Mat& a, const cv::Mat& b);
double mean_difference(const cv::Mat& a, const cv::Mat& b);

}  // namespace sgtrain::support
