#include "data/pixels.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "data/pixel_columns.h"

namespace sgtrain::data {
namespace {

using std::int16_t;
using std::int32_t;
using std::uint8_t;

constexpr int kResizeBits = 11;  // OpenCV's INTER_RESIZE_COEF_BITS

/// One row of the horizontal pass, scaled down by 16 as the vertical pass wants it.
void resize_row(const uint8_t* src, const Columns& columns, std::size_t begin, int16_t* out) {
  for (std::size_t x = begin; x < columns.offset.size(); ++x) {
    const uint8_t* pixel = src + columns.offset[x];
    const int first = first_weight(columns.weight[x]);
    const int second = second_weight(columns.weight[x]);
    const int step = second == 0 ? 0 : 3;  // the last column has no right neighbour
    for (int c = 0; c < 3; ++c) {
      out[3 * x + c] = static_cast<int16_t>((pixel[c] * first + pixel[c + step] * second) >> 4);
    }
  }
}

/// Reads 8 bytes at each offset. Writes 2 values past the end.
__attribute__((target("avx2"))) void resize_row_avx2(const uint8_t* src, const Columns& columns,
                                                     int16_t* out) {
  // (left c, right c) as 16-bit pairs for c = 0, 1, 2.
  const __m128i pairs = _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m128i squeeze = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
  const std::size_t n = columns.offset.size();
  std::size_t x = 0;
  for (; x + 2 <= n; x += 2) {
    const __m128i left = _mm_shuffle_epi8(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + columns.offset[x])), pairs);
    const __m128i right = _mm_shuffle_epi8(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + columns.offset[x + 1])), pairs);
    const __m128i a = _mm_madd_epi16(left, _mm_set1_epi32(columns.weight[x]));
    const __m128i b = _mm_madd_epi16(right, _mm_set1_epi32(columns.weight[x + 1]));
    const __m128i packed = _mm_packs_epi32(_mm_srai_epi32(a, 4), _mm_srai_epi32(b, 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), _mm_shuffle_epi8(packed, squeeze));
  }
  resize_row(src, columns, x, out);
}

/// The vertical pass: OpenCV's 16-bit arithmetic ((a·S)>>16, sum, round by 2 bits).
void blend_rows(const int16_t* top, const int16_t* bottom, int weight_top, int weight_bottom,
                std::size_t n, uint8_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const int sum = ((top[i] * weight_top) >> 16) + ((bottom[i] * weight_bottom) >> 16);
    out[i] = static_cast<uint8_t>((sum + 2) >> 2);
  }
}

__attribute__((target("avx2"))) void blend_rows_avx2(const int16_t* top, const int16_t* bottom,
                                                     int weight_top, int weight_bottom,
                                                     std::size_t n, uint8_t* out) {
  const __m256i wt = _mm256_set1_epi16(static_cast<int16_t>(weight_top));
  const __m256i wb = _mm256_set1_epi16(static_cast<int16_t>(weight_bottom));
  const __m256i two = _mm256_set1_epi16(2);
  const auto half = [&](std::size_t at) __attribute__((target("avx2"))) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(top + at));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bottom + at));
    const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(a, wt), _mm256_mulhi_epi16(b, wb));
    return _mm256_srai_epi16(_mm256_add_epi16(sum, two), 2);
  };
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m256i packed = _mm256_packus_epi16(half(i), half(i + 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_permute4x64_epi64(packed, 0b11'01'10'00));
  }
  blend_rows(top + i, bottom + i, weight_top, weight_bottom, n - i, out + i);
}

/// Source position and weight of the right (lower) neighbour, as cv::resize computes them.
struct Tap {
  int index;
  float fraction;
};
Tap tap_of(int target, double scale) {
  const auto position = static_cast<float>((target + 0.5) * scale - 0.5);
  const int index = cvFloor(position);
  return {index, position - static_cast<float>(index)};
}

int coefficient(float weight) {
  return cv::saturate_cast<short>(weight * static_cast<float>(1 << kResizeBits));
}

Columns resize_columns(int source_width, double scale, int begin, int count) {
  Columns columns;
  columns.offset.reserve(static_cast<std::size_t>(count));
  columns.weight.reserve(static_cast<std::size_t>(count));
  for (int x = 0; x < count; ++x) {
    Tap tap = tap_of(begin + x, scale);
    if (tap.index < 0) tap = {0, 0.0F};
    if (tap.index >= source_width - 1) tap = {source_width - 1, 0.0F};
    columns.offset.push_back(3 * tap.index);
    columns.weight.push_back(
        weight_pair(coefficient(1.0F - tap.fraction), coefficient(tap.fraction)));
  }
  return columns;
}

}  // namespace

void resize_linear(const cv::Mat& src, cv::Size full, cv::Rect part, cv::Mat dst) {
  CV_Assert(dst.size() == part.size() && dst.type() == CV_8UC3 && src.type() == CV_8UC3);
  if (full == src.size()) {
    src(part).copyTo(dst);
    return;
  }
  const double scale_x = 1.0 / (static_cast<double>(full.width) / src.cols);
  const double scale_y = 1.0 / (static_cast<double>(full.height) / src.rows);
  if (2 * full.width == src.cols && 2 * full.height == src.rows) {
    // OpenCV averages 2x2 pixels here; a part of that is the same average of a part.
    cv::resize(src(cv::Rect(2 * part.x, 2 * part.y, 2 * part.width, 2 * part.height)), dst,
               part.size(), 0, 0, cv::INTER_LINEAR);
    return;
  }
  const Columns columns = resize_columns(src.cols, scale_x, part.x, part.width);
  const auto values = static_cast<std::size_t>(3 * part.width);
  // Two rows of the horizontal pass are kept: neighbours are mostly shared between target rows.
  std::array<std::vector<int16_t>, 2> rows{std::vector<int16_t>(values + 8),
                                           std::vector<int16_t>(values + 8)};
  std::array<int, 2> held{-1, -1};
  std::vector<uint8_t> last_row(static_cast<std::size_t>(3 * src.cols + 16));
  const auto row_of = [&](int y, int keep) -> int {
    if (held[0] == y) return 0;
    if (held[1] == y) return 1;
    const int slot = held[0] == keep ? 1 : 0;
    const auto* pixels = src.ptr<uint8_t>(y);
    if (y == src.rows - 1) {  // the kernel reads a few bytes past the last pixel
      std::memcpy(last_row.data(), pixels, static_cast<std::size_t>(3 * src.cols));
      pixels = last_row.data();
    }
    auto* out = rows[static_cast<std::size_t>(slot)].data();
    if (kHasAvx2) {
      resize_row_avx2(pixels, columns, out);
    } else {
      resize_row(pixels, columns, 0, out);
    }
    held[static_cast<std::size_t>(slot)] = y;
    return slot;
  };
  const auto blend = kHasAvx2 ? blend_rows_avx2 : blend_rows;
  for (int y = 0; y < part.height; ++y) {
    const Tap tap = tap_of(part.y + y, scale_y);
    const int top = std::clamp(tap.index, 0, src.rows - 1);
    const int bottom = std::clamp(tap.index + 1, 0, src.rows - 1);
    const auto a = static_cast<std::size_t>(row_of(top, bottom));
    const auto b = static_cast<std::size_t>(row_of(bottom, top));
    blend(rows[a].data(), rows[b].data(), coefficient(1.0F - tap.fraction),
          coefficient(tap.fraction), values, dst.ptr<uint8_t>(y));
  }
}

void resize_linear(const cv::Mat& src, cv::Mat dst) {
  resize_linear(src, dst.size(), cv::Rect({0, 0}, dst.size()), dst);
}

}  // namespace sgtrain::data
