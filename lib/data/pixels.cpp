#include "data/pixels.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <opencv2/imgproc.hpp>
#include <utility>
#include <vector>

#include "data/pixel_columns.h"

namespace sgtrain::data {
namespace {

using std::uint8_t;

// ---------------------------------------------------------------------- HSV

/// What is added to a run of interleaved H, S, V bytes: 96 bytes, three vectors of 32.
struct HsvShift {
  std::array<uint8_t, 96> add, subtract, wrap_from, wrap_by;
};

HsvShift hsv_shift(int hue, int saturation, int value) {
  HsvShift shift{};
  const int turn = ((hue % 180) + 180) % 180;
  const std::array<int, 3> amount{turn, saturation, value};
  for (std::size_t i = 0; i < 96; ++i) {
    const std::size_t channel = i % 3;
    const int by = std::clamp(amount[channel], -255, 255);
    shift.add[i] = static_cast<uint8_t>(std::max(by, 0));
    shift.subtract[i] = static_cast<uint8_t>(std::max(-by, 0));
    // Hue: h + turn, or h - (180 - turn) from there on. The others never wrap.
    shift.wrap_from[i] = static_cast<uint8_t>(channel == 0 ? 180 - turn : 255);
    shift.wrap_by[i] = static_cast<uint8_t>(channel == 0 ? 180 - turn : 0);
  }
  return shift;
}

void apply_hsv_shift(uint8_t* pixels, std::size_t n, const HsvShift& shift) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t k = i % 3;
    if (k == 0) {
      pixels[i] =
          static_cast<uint8_t>(pixels[i] >= shift.wrap_from[0] ? pixels[i] - shift.wrap_by[0]
                                                               : pixels[i] + shift.add[0]);
    } else {
      pixels[i] =
          static_cast<uint8_t>(std::clamp(pixels[i] + shift.add[k] - shift.subtract[k], 0, 255));
    }
  }
}

__attribute__((target("avx2"))) void apply_hsv_shift_avx2(uint8_t* pixels, std::size_t n,
                                                          const HsvShift& shift) {
  std::size_t i = 0;
  for (; i + 96 <= n; i += 96) {
    for (std::size_t k = 0; k < 96; k += 32) {
      const auto load = [k](const auto& values) __attribute__((target("avx2"))) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values.data() + k));
      };
      auto* at = reinterpret_cast<__m256i*>(pixels + i + k);
      const __m256i x = _mm256_loadu_si256(at);
      const __m256i wraps = _mm256_cmpeq_epi8(_mm256_max_epu8(x, load(shift.wrap_from)), x);
      const __m256i add = _mm256_andnot_si256(wraps, load(shift.add));
      const __m256i subtract =
          _mm256_or_si256(_mm256_and_si256(wraps, load(shift.wrap_by)), load(shift.subtract));
      _mm256_storeu_si256(at, _mm256_subs_epu8(_mm256_adds_epu8(x, add), subtract));
    }
  }
  apply_hsv_shift(pixels + i, n - i, shift);
}

// ------------------------------------------------------------ swap and blend

/// 16 pixels at a time in three whole vectors: overlapping loads and stores would stall.
__attribute__((target("avx2"))) std::size_t swap_row_avx2(uint8_t* pixels, std::size_t n) {
  constexpr char kNone = -1;
  // Which byte of the three vectors goes where; pixels 5 and 10 lie across their borders.
  const __m128i a_to_a = _mm_setr_epi8(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, kNone);
  const __m128i b_to_a = _mm_setr_epi8(kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                       kNone, kNone, kNone, kNone, kNone, kNone, kNone, 1);
  const __m128i a_to_b = _mm_setr_epi8(kNone, 15, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                       kNone, kNone, kNone, kNone, kNone, kNone, kNone);
  const __m128i b_to_b = _mm_setr_epi8(0, kNone, 4, 3, 2, 7, 6, 5, 10, 9, 8, 13, 12, 11, kNone, 15);
  const __m128i c_to_b = _mm_setr_epi8(kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                       kNone, kNone, kNone, kNone, kNone, kNone, 0, kNone);
  const __m128i b_to_c = _mm_setr_epi8(14, kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone,
                                       kNone, kNone, kNone, kNone, kNone, kNone, kNone);
  const __m128i c_to_c = _mm_setr_epi8(kNone, 3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10, 15, 14, 13);
  std::size_t i = 0;
  for (; i + 48 <= n; i += 48) {
    auto* at = reinterpret_cast<__m128i*>(pixels + i);
    const __m128i a = _mm_loadu_si128(at), b = _mm_loadu_si128(at + 1), c = _mm_loadu_si128(at + 2);
    _mm_storeu_si128(at, _mm_or_si128(_mm_shuffle_epi8(a, a_to_a), _mm_shuffle_epi8(b, b_to_a)));
    _mm_storeu_si128(
        at + 1, _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, a_to_b), _mm_shuffle_epi8(b, b_to_b)),
                             _mm_shuffle_epi8(c, c_to_b)));
    _mm_storeu_si128(at + 2,
                     _mm_or_si128(_mm_shuffle_epi8(b, b_to_c), _mm_shuffle_epi8(c, c_to_c)));
  }
  return i;
}

__attribute__((target("avx2"))) std::size_t flip_row_avx2(const uint8_t* src, std::size_t n,
                                                          uint8_t* out) {
  // Writes out[0..] from the end of src; 5 pixels of every 16 bytes.
  const __m128i order = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 15) {
    const __m128i pixels = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + n - i - 16));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_shuffle_epi8(pixels, order));
  }
  return i;
}

/// Bytes of `a` become the floored mean; returns how many were done.
__attribute__((target("avx2"))) std::size_t blend_row_avx2(uint8_t* a, const uint8_t* b,
                                                           std::size_t n) {
  const __m256i low = _mm256_set1_epi8(0x7F);
  std::size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    auto* at = reinterpret_cast<__m256i*>(a + i);
    const __m256i x = _mm256_loadu_si256(at);
    const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
    // floor((x + y) / 2) = (x & y) + ((x ^ y) >> 1)
    const __m256i half = _mm256_and_si256(_mm256_srli_epi16(_mm256_xor_si256(x, y), 1), low);
    _mm256_storeu_si256(at, _mm256_add_epi8(_mm256_and_si256(x, y), half));
  }
  return i;
}

void swap_row(uint8_t* pixels, std::size_t bytes) {
  for (std::size_t i = kHasAvx2 ? swap_row_avx2(pixels, bytes) : 0; i + 3 <= bytes; i += 3) {
    std::swap(pixels[i], pixels[i + 2]);
  }
}

}  // namespace

void swap_red_blue(cv::Mat& image) {
  for (int y = 0; y < image.rows; ++y) {
    swap_row(image.ptr<uint8_t>(y), static_cast<std::size_t>(3 * image.cols));
  }
}

void flip_horizontally(cv::Mat& image) {
  const auto bytes = static_cast<std::size_t>(3 * image.cols);
  std::vector<uint8_t> row(bytes);
  for (int y = 0; y < image.rows; ++y) {
    auto* pixels = image.ptr<uint8_t>(y);
    std::memcpy(row.data(), pixels, bytes);
    for (std::size_t i = kHasAvx2 ? flip_row_avx2(row.data(), bytes, pixels) : 0; i < bytes;
         i += 3) {
      std::copy_n(row.data() + bytes - i - 3, 3, pixels + i);
    }
  }
}

void shift_hsv(cv::Mat& image, int hue, int saturation, int value, bool bgr) {
  const HsvShift shift = hsv_shift(hue, saturation, value);
  // A few rows at a time stay in the first-level cache between the three passes.
  const int step = std::max(1, 4096 / std::max(1, image.cols));
  cv::Mat hsv;
  for (int y = 0; y < image.rows; y += step) {
    cv::Mat rows = image.rowRange(y, std::min(image.rows, y + step));
    cv::cvtColor(rows, hsv, bgr ? cv::COLOR_BGR2HSV : cv::COLOR_RGB2HSV);
    const auto n = hsv.total() * 3;
    if (kHasAvx2) {
      apply_hsv_shift_avx2(hsv.ptr<uint8_t>(), n, shift);
    } else {
      apply_hsv_shift(hsv.ptr<uint8_t>(), n, shift);
    }
    cv::cvtColor(hsv, rows, bgr ? cv::COLOR_HSV2BGR : cv::COLOR_HSV2RGB);
  }
}

void blend_half(cv::Mat dst, const cv::Mat& other, bool swap_other) {
  const auto bytes = static_cast<std::size_t>(3 * dst.cols);
  std::vector<uint8_t> swapped(swap_other ? bytes : 0);
  for (int y = 0; y < dst.rows; ++y) {
    auto* a = dst.ptr<uint8_t>(y);
    const auto* b = other.ptr<uint8_t>(y);
    if (swap_other) {
      std::memcpy(swapped.data(), b, bytes);
      swap_row(swapped.data(), bytes);
      b = swapped.data();
    }
    for (std::size_t i = kHasAvx2 ? blend_row_avx2(a, b, bytes) : 0; i < bytes; ++i) {
      a[i] = static_cast<uint8_t>((a[i] + b[i]) >> 1);
    }
  }
}

}  // namespace sgtrain::data
