#include "data/pixels.h"

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <opencv2/imgproc.hpp>
#include <vector>

namespace sgtrain::data {
namespace {

using std::int16_t;
using std::int32_t;
using std::int64_t;
using std::uint8_t;

const bool kHasAvx2 = __builtin_cpu_supports("avx2") > 0;

/// Two 16-bit weights side by side, as pmaddwd wants them.
int32_t weight_pair(int first, int second) {
  return static_cast<int32_t>((static_cast<std::uint32_t>(second) << 16) |
                              (static_cast<std::uint32_t>(first) & 0xFFFFU));
}
int first_weight(int32_t pair) {
  return static_cast<int16_t>(pair & 0xFFFF);
}
int second_weight(int32_t pair) {
  return pair >> 16;
}

// ------------------------------------------------------------------- resize

constexpr int kResizeBits = 11;  // OpenCV's INTER_RESIZE_COEF_BITS

/// Columns of one resize: where the left neighbour lies (in channels) and both weights.
struct Columns {
  std::vector<int32_t> offset;
  std::vector<int32_t> weight;
};

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

// --------------------------------------------------------------------- warp

constexpr int kWarpBits = 5;  // OpenCV's INTER_BITS: positions in 1/32 pixel
constexpr int kOne = 1 << kWarpBits;

constexpr double kFine = 1 << 10;  // OpenCV's AB_SCALE: steps of a position before it is cut

/// From fine steps to 1/32 pixel, rounded.
int cut_position(int fine) {
  constexpr int kStep = static_cast<int>(kFine) / kOne;
  return (fine + kStep / 2) >> 5;
}

/// Source columns (1/32 pixel) of target columns 0..n-1. OpenCV rounds shift and product apart.
std::vector<int> warp_columns_at(double factor, double shift, int n) {
  const int start = cv::saturate_cast<int>(shift * kFine);
  std::vector<int> out(static_cast<std::size_t>(n));
  for (int x = 0; x < n; ++x) {
    out[static_cast<std::size_t>(x)] =
        cut_position(start + cv::saturate_cast<int>(factor * x * kFine));
  }
  return out;
}

/// Source row (1/32 pixel) of a target row. Here OpenCV rounds the sum.
int warp_row_at(double factor, double shift, int y) {
  return cut_position(cv::saturate_cast<int>((factor * y + shift) * kFine));
}

/// out = top·(32-w) + bottom·w over n bytes.
void warp_rows(const uint8_t* top, const uint8_t* bottom, int w, std::size_t n, int16_t* out) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<int16_t>(top[i] * (kOne - w) + bottom[i] * w);
  }
}

__attribute__((target("avx2"))) void warp_rows_avx2(const uint8_t* top, const uint8_t* bottom,
                                                    int w, std::size_t n, int16_t* out) {
  const __m256i wt = _mm256_set1_epi16(static_cast<int16_t>(kOne - w));
  const __m256i wb = _mm256_set1_epi16(static_cast<int16_t>(w));
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i a =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(top + i)));
    const __m256i b =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bottom + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_add_epi16(_mm256_mullo_epi16(a, wt), _mm256_mullo_epi16(b, wb)));
  }
  warp_rows(top + i, bottom + i, w, n - i, out + i);
}

void warp_columns(const int16_t* rows, const Columns& columns, std::size_t begin, uint8_t* out) {
  for (std::size_t x = begin; x < columns.offset.size(); ++x) {
    const int16_t* pixel = rows + columns.offset[x];
    const int first = first_weight(columns.weight[x]);
    const int second = second_weight(columns.weight[x]);
    for (int c = 0; c < 3; ++c) {
      out[3 * x + c] = static_cast<uint8_t>(
          (pixel[c] * first + pixel[c + 3] * second + (1 << (2 * kWarpBits - 1))) >>
          (2 * kWarpBits));
    }
  }
}

/// Reads 16 bytes at each offset; writes nothing past the end.
__attribute__((target("avx2"))) void warp_columns_avx2(const int16_t* rows, const Columns& columns,
                                                       uint8_t* out) {
  const __m256i pairs = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
  const __m128i squeeze = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
  const __m256i round = _mm256_set1_epi32(1 << (2 * kWarpBits - 1));
  const std::size_t n = columns.offset.size();
  const auto load = [&](std::size_t x) __attribute__((target("avx2"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + columns.offset[x]));
  };
  const auto lerp = [&](std::size_t x) __attribute__((target("avx2"))) {
    const __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(load(x)), load(x + 1), 1);
    const __m256i weights =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi32(columns.weight[x])),
                                _mm_set1_epi32(columns.weight[x + 1]), 1);
    const __m256i sum = _mm256_madd_epi16(_mm256_shuffle_epi8(two, pairs), weights);
    return _mm256_srai_epi32(_mm256_add_epi32(sum, round), 2 * kWarpBits);
  };
  std::size_t x = 0;
  for (; x + 6 <= n; x += 4) {  // 16 bytes are written for 12: two pixels more must follow
    const __m256i words = _mm256_packs_epi32(lerp(x), lerp(x + 2));  // 0 2 | 1 3
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), _mm_shuffle_epi8(bytes, squeeze));
  }
  warp_columns(rows, columns, x, out);
}

void fill_pixels(uint8_t* out, std::size_t pixels, const std::array<uint8_t, 3>& color) {
  if (color[0] == color[1] && color[1] == color[2]) {
    std::memset(out, color[0], 3 * pixels);
    return;
  }
  for (std::size_t i = 0; i < pixels; ++i) std::copy(color.begin(), color.end(), out + 3 * i);
}

/// The matrix only scales and shifts: both axes separate, and two short passes replace four
/// scattered reads per pixel.
void warp_separable(const cv::Mat& src, const std::array<double, 6>& inverse,
                    const std::array<uint8_t, 3>& border, cv::Mat& dst) {
  const std::vector<int> xs = warp_columns_at(inverse[0], inverse[2], dst.cols);
  // Targets whose left or right neighbour lies inside; contiguous, since positions are monotonous.
  const auto inside = [](int position, int size) {
    const int index = position >> kWarpBits;
    return index >= -1 && index < size;
  };
  int begin = 0, end = dst.cols;
  while (begin < end && !inside(xs[static_cast<std::size_t>(begin)], src.cols)) ++begin;
  while (end > begin && !inside(xs[static_cast<std::size_t>(end - 1)], src.cols)) --end;

  Columns columns;
  int first_column = src.cols, last_column = -1;
  for (int x = begin; x < end; ++x) {
    const int position = xs[static_cast<std::size_t>(x)];
    const int index = position >> kWarpBits;
    const int weight = position & (kOne - 1);
    columns.offset.push_back(3 * (index + 1));  // one border pixel stands on the left
    columns.weight.push_back(weight_pair(kOne - weight, weight));
    first_column = std::min(first_column, std::max(index, 0));
    last_column = std::max(last_column, std::min(index + 1, src.cols - 1));
  }

  const auto row_bytes = static_cast<std::size_t>(3 * src.cols);
  std::vector<uint8_t> border_row(row_bytes);
  fill_pixels(border_row.data(), static_cast<std::size_t>(src.cols), border);
  std::vector<int16_t> rows(row_bytes + 6 + 8);  // border pixels at both ends, room to over-read
  for (int c = 0; c < 3; ++c) {
    rows[static_cast<std::size_t>(c)] =
        static_cast<int16_t>(border[static_cast<std::size_t>(c)] * kOne);
    rows[row_bytes + 3 + static_cast<std::size_t>(c)] = rows[static_cast<std::size_t>(c)];
  }
  const auto used_begin = static_cast<std::size_t>(3 * first_column);
  const auto used_bytes = static_cast<std::size_t>(
      last_column < first_column ? 0 : 3 * (last_column - first_column + 1));

  for (int y = 0; y < dst.rows; ++y) {
    auto* out = dst.ptr<uint8_t>(y);
    const int position = warp_row_at(inverse[4], inverse[5], y);
    if (begin == end || !inside(position, src.rows)) {
      fill_pixels(out, static_cast<std::size_t>(dst.cols), border);
      continue;
    }
    const int index = position >> kWarpBits;
    const uint8_t* top = index >= 0 ? src.ptr<uint8_t>(index) : border_row.data();
    const uint8_t* bottom = index + 1 < src.rows ? src.ptr<uint8_t>(index + 1) : border_row.data();
    const auto blend = kHasAvx2 ? warp_rows_avx2 : warp_rows;
    blend(top + used_begin, bottom + used_begin, position & (kOne - 1), used_bytes,
          rows.data() + 3 + used_begin);
    fill_pixels(out, static_cast<std::size_t>(begin), border);
    if (kHasAvx2) {
      warp_columns_avx2(rows.data(), columns, out + 3 * begin);
    } else {
      warp_columns(rows.data(), columns, 0, out + 3 * begin);
    }
    fill_pixels(out + 3 * end, static_cast<std::size_t>(dst.cols - end), border);
  }
}

/// Inverts a 2x3 matrix as cv::warpAffine does.
std::array<double, 6> invert(const std::array<double, 6>& m) {
  double determinant = m[0] * m[4] - m[1] * m[3];
  determinant = determinant != 0.0 ? 1.0 / determinant : 0.0;
  std::array<double, 6> out{m[4] * determinant,  m[1] * -determinant, 0.0,
                            m[3] * -determinant, m[0] * determinant,  0.0};
  out[2] = -out[0] * m[2] - out[1] * m[5];
  out[5] = -out[3] * m[2] - out[4] * m[5];
  return out;
}

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

__attribute__((target("avx2"))) std::size_t swap_row_avx2(uint8_t* pixels, std::size_t n) {
  // 5 pixels of every 16 bytes, written back over 16: the 16th byte keeps its value.
  const __m128i order = _mm_setr_epi8(2, 1, 0, 5, 4, 3, 8, 7, 6, 11, 10, 9, 14, 13, 12, 15);
  std::size_t i = 0;
  for (; i + 16 <= n; i += 15) {
    auto* at = reinterpret_cast<__m128i*>(pixels + i);
    _mm_storeu_si128(at, _mm_shuffle_epi8(_mm_loadu_si128(at), order));
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

void warp_affine(const cv::Mat& src, const std::array<double, 6>& m, const cv::Scalar& border,
                 cv::Mat dst) {
  CV_Assert(dst.type() == CV_8UC3 && src.type() == CV_8UC3);
  const bool in_range = src.cols < (1 << 15) && src.rows < (1 << 15);
  if (m[1] == 0.0 && m[3] == 0.0 && m[0] > 0.0 && m[4] > 0.0 && in_range) {
    std::array<uint8_t, 3> color{};
    for (int c = 0; c < 3; ++c) {
      color[static_cast<std::size_t>(c)] = cv::saturate_cast<uint8_t>(border[c]);
    }
    warp_separable(src, invert(m), color, dst);
    return;
  }
  const cv::Mat matrix(2, 3, CV_64F, const_cast<double*>(m.data()));
  cv::warpAffine(src, dst, matrix, dst.size(), cv::INTER_LINEAR, cv::BORDER_CONSTANT, border);
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
