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

}  // namespace

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

}  // namespace sgtrain::data
