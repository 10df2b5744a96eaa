// Image operations with Pillow's arithmetic (which torchvision uses on PIL images, and with it the
// classification recipes): antialiased resampling, affine maps, ImageOps and ImageEnhance. Images
// are CV_8UC3 RGB; views (crops) are fine as input. Results equal Pillow's byte for byte
// (tests/peer/pillow_ops.py). Resampling goes columns first, as Pillow did before version 13, which
// picks the cheaper order (one level of difference).
#pragma once

#include <array>
#include <opencv2/core.hpp>
#include <optional>
#include <string_view>

namespace sgtrain::data::pillow {

enum class Filter { kNearest, kBox, kBilinear, kHamming, kBicubic, kLanczos };

/// "nearest", "bilinear", "bicubic", "box", "hamming", "lanczos", in any case.
std::optional<Filter> filter_of(std::string_view name);

/// Image.resize: antialiased convolution in 22-bit fixed point, columns first, rounded to bytes
/// between the passes. Writes into `dst`, whose size says the target size.
void resize(const cv::Mat& src, Filter filter, cv::Mat dst);

/// Image.transform(AFFINE): target pixel (x, y) takes source position
/// (m0·x + m1·y + m2, m3·x + m4·y + m5), measured at pixel centres; kNearest or kBilinear.
void affine(const cv::Mat& src, const std::array<double, 6>& m, Filter filter,
            const cv::Vec3b& fill, cv::Mat dst);
/// Image.rotate about the centre, counter-clockwise degrees, same size.
void rotate(const cv::Mat& src, double degrees, Filter filter, const cv::Vec3b& fill, cv::Mat dst);
/// The matrix of Image.rotate, for `expand` and other centres.
struct Rotation {
  std::array<double, 6> matrix;
  cv::Size size;
};
Rotation rotation(cv::Size size, double degrees, bool expand, std::optional<cv::Point2d> center);

// In place:
void autocontrast(cv::Mat& image);
void equalize(cv::Mat& image);
void invert(cv::Mat& image);
void solarize(cv::Mat& image, int threshold);  // inverts values >= threshold
void solarize_add(cv::Mat& image, int add, int threshold = 128);
void posterize(cv::Mat& image, int bits);
// ImageEnhance: factor 0 is the degenerate image, 1 the original.
void color(cv::Mat& image, double factor);
void contrast(cv::Mat& image, double factor);
void brightness(cv::Mat& image, double factor);
void sharpness(cv::Mat& image, double factor);
/// torchvision's adjust_hue: adds int(factor · 255) modulo 256 to Pillow's 8-bit hue.
void hue(cv::Mat& image, double factor);
/// Three equal channels of ITU-R 601 luma.
void grayscale(cv::Mat& image);

}  // namespace sgtrain::data::pillow
