// Kernels on CV_8UC3 images that the detection transforms spend their time in. Each gives, bit for
// bit, what the OpenCV function named there gives; AVX2 is used where the processor has it.
#pragma once

#include <array>
#include <opencv2/core.hpp>

namespace sgtrain::data {

/// Swaps the first and third channel in place.
void swap_red_blue(cv::Mat& image);

/// Mirrors left and right in place (cv::flip(…, 1)).
void flip_horizontally(cv::Mat& image);

/// `part` of what cv::resize(src, full, INTER_LINEAR) gives, written to `dst` (CV_8UC3 of part's
/// size, may be a view). Only the part is computed.
void resize_linear(const cv::Mat& src, cv::Size full, cv::Rect part, cv::Mat dst);
/// The whole of it.
void resize_linear(const cv::Mat& src, cv::Mat dst);

/// cv::warpAffine(src, dst, m, dst.size(), INTER_LINEAR, BORDER_CONSTANT, border): `m` maps source
/// to target pixels, row major 2x3. Several times faster when `m` only scales and shifts.
void warp_affine(const cv::Mat& src, const std::array<double, 6>& m, const cv::Scalar& border,
                 cv::Mat dst);

/// Adds to hue (modulo 180), saturation and value (clipped to 0..255) through OpenCV's 8-bit HSV.
/// @param bgr the first channel counts as blue
void shift_hsv(cv::Mat& image, int hue, int saturation, int value, bool bgr);

/// dst = floor((dst + other) / 2).
/// @param swap_other `other` has its channels reversed
void blend_half(cv::Mat dst, const cv::Mat& other, bool swap_other);

}  // namespace sgtrain::data
