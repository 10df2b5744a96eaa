#include "data/pillow.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/text.h"

namespace sgtrain::data::pillow {
namespace {

using std::uint8_t;

// -------------------------------------------------------------------- resize

constexpr int kPrecision = 32 - 8 - 2;  // bits of a coefficient
constexpr double kPi = 3.14159265358979323846;

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= kPi;
  return std::sin(x) / x;
}

double kernel(Filter filter, double x) {
  switch (filter) {
    case Filter::kBox:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Filter::kBilinear:
      x = std::abs(x);
      return x < 1.0 ? 1.0 - x : 0.0;
    case Filter::kHamming:
      x = std::abs(x);
      if (x == 0.0) return 1.0;
      if (x >= 1.0) return 0.0;
      x *= kPi;
      return std::sin(x) / x * (0.54F + 0.46F * std::cos(x));
    case Filter::kBicubic: {
      constexpr double a = -0.5;  // Keys 1981
      x = std::abs(x);
      if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
      if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
      return 0.0;
    }
    case Filter::kLanczos:
      return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    case Filter::kNearest:
      break;
  }
  return 0.0;
}

double radius(Filter filter) {
  switch (filter) {
    case Filter::kBox:
      return 0.5;
    case Filter::kBicubic:
      return 2.0;
    case Filter::kLanczos:
      return 3.0;
    default:
      return 1.0;
  }
}

/// The convolution along one axis: target i sums `count[i]` sources from `first[i]`.
struct Taps {
  int width = 0;  // coefficients kept per target
  std::vector<int> first, count;
  std::vector<std::int32_t> weight;
};

Taps make_taps(int in, int out, Filter filter) {
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = radius(filter) * stretch;
  Taps taps;
  taps.width = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.first.resize(static_cast<std::size_t>(out));
  taps.count.resize(static_cast<std::size_t>(out));
  taps.weight.resize(static_cast<std::size_t>(out) * static_cast<std::size_t>(taps.width));
  std::vector<double> k(static_cast<std::size_t>(taps.width));
  for (int i = 0; i < out; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int count = std::min(static_cast<int>(center + support + 0.5), in) - first;
    double sum = 0.0;
    for (int j = 0; j < count; ++j) {
      k[static_cast<std::size_t>(j)] = kernel(filter, (j + first - center + 0.5) * (1.0 / stretch));
      sum += k[static_cast<std::size_t>(j)];
    }
    auto* weight =
        taps.weight.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.width);
    for (int j = 0; j < count; ++j) {
      double value = k[static_cast<std::size_t>(j)];
      if (sum != 0.0) value /= sum;
      const double fixed = value * (1 << kPrecision);
      weight[j] = static_cast<std::int32_t>(value < 0 ? fixed - 0.5 : fixed + 0.5);
    }
    taps.first[static_cast<std::size_t>(i)] = first;
    taps.count[static_cast<std::size_t>(i)] = count;
  }
  return taps;
}

uint8_t clip_fixed(std::int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kPrecision, 0, 255));
}

__attribute__((target_clones("avx2", "default"))) void convolve_row(const uint8_t* src,
                                                                    const Taps& taps, int out,
                                                                    uint8_t* dst) {
  constexpr std::int32_t kHalf = 1 << (kPrecision - 1);
  for (int i = 0; i < out; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t* weight = taps.weight.data() + at * static_cast<std::size_t>(taps.width);
    const uint8_t* pixel = src + 3 * taps.first[at];
    std::int32_t r = kHalf, g = kHalf, b = kHalf;
    for (int j = 0; j < taps.count[at]; ++j, pixel += 3) {
      r += pixel[0] * weight[j];
      g += pixel[1] * weight[j];
      b += pixel[2] * weight[j];
    }
    dst[3 * i] = clip_fixed(r);
    dst[3 * i + 1] = clip_fixed(g);
    dst[3 * i + 2] = clip_fixed(b);
  }
}

/// sums += row * weight
__attribute__((target_clones("avx2", "default"), optimize("O3"))) void add_row(const uint8_t* row,
                                                                               std::int32_t weight,
                                                                               int n,
                                                                               std::int32_t* sums) {
  for (int i = 0; i < n; ++i) sums[i] += row[i] * weight;
}

__attribute__((target_clones("avx2", "default"), optimize("O3"))) void store_row(
    const std::int32_t* sums, int n, uint8_t* out) {
  for (int i = 0; i < n; ++i) out[i] = clip_fixed(sums[i]);
}

/// Sources of targets 0..out-1; positions are summed up, as Pillow does.
std::vector<int> nearest_sources(int in, int out) {
  const double step = static_cast<double>(in) / out;
  double position = step * 0.5;
  std::vector<int> sources(static_cast<std::size_t>(out));
  for (int& source : sources) {
    source = std::min(static_cast<int>(position), in - 1);
    position += step;
  }
  return sources;
}

void resize_nearest(const cv::Mat& src, cv::Mat& dst) {
  const std::vector<int> columns = nearest_sources(src.cols, dst.cols);
  const std::vector<int> rows = nearest_sources(src.rows, dst.rows);
  for (int y = 0; y < dst.rows; ++y) {
    const auto* row = src.ptr<cv::Vec3b>(rows[static_cast<std::size_t>(y)]);
    auto* out = dst.ptr<cv::Vec3b>(y);
    for (int x = 0; x < dst.cols; ++x) out[x] = row[columns[static_cast<std::size_t>(x)]];
  }
}

// -------------------------------------------------------------------- affine

bool sample_bilinear(const cv::Mat& src, double x, double y, uint8_t* out) {
  if (x < 0.0 || x >= src.cols || y < 0.0 || y >= src.rows) return false;
  x -= 0.5;
  y -= 0.5;
  const int ix = static_cast<int>(std::floor(x));
  const int iy = static_cast<int>(std::floor(y));
  const double dx = x - ix;
  const double dy = y - iy;
  const auto* top = src.ptr<uint8_t>(std::clamp(iy, 0, src.rows - 1));
  const auto* bottom = iy + 1 >= 0 && iy + 1 < src.rows ? src.ptr<uint8_t>(iy + 1) : top;
  const int left = 3 * std::clamp(ix, 0, src.cols - 1);
  const int right = 3 * std::clamp(ix + 1, 0, src.cols - 1);
  for (int c = 0; c < 3; ++c) {
    const double a = top[left + c] + (top[right + c] - top[left + c]) * dx;
    const double b = bottom[left + c] + (bottom[right + c] - bottom[left + c]) * dx;
    out[c] = static_cast<uint8_t>(a + (b - a) * dy);
  }
  return true;
}

void affine_nearest(const cv::Mat& src, const std::array<double, 6>& m, cv::Mat& dst) {
  // 16.16 fixed point, as Pillow does below 32768 pixels a side.
  const auto fixed = [](double v) { return static_cast<int>(std::floor(v * 65536.0 + 0.5)); };
  const int ax = fixed(m[0]), bx = fixed(m[1]), ay = fixed(m[3]), by = fixed(m[4]);
  int row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5);
  int row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
  for (int y = 0; y < dst.rows; ++y, row_x += bx, row_y += by) {
    auto* out = dst.ptr<cv::Vec3b>(y);
    int px = row_x, py = row_y;
    for (int x = 0; x < dst.cols; ++x, px += ax, py += ay) {
      const int ix = px >> 16, iy = py >> 16;
      if (ix >= 0 && ix < src.cols && iy >= 0 && iy < src.rows) out[x] = src.at<cv::Vec3b>(iy, ix);
    }
  }
}

}  // namespace

std::optional<Filter> filter_of(std::string_view name) {
  const std::string key = core::lower(name);
  if (key == "nearest") return Filter::kNearest;
  if (key == "box") return Filter::kBox;
  if (key == "bilinear" || key == "default") return Filter::kBilinear;
  if (key == "hamming") return Filter::kHamming;
  if (key == "bicubic") return Filter::kBicubic;
  if (key == "lanczos") return Filter::kLanczos;
  return std::nullopt;
}

void resize(const cv::Mat& src, Filter filter, cv::Mat dst) {
  CV_Assert(src.type() == CV_8UC3 && dst.type() == CV_8UC3);
  if (src.size() == dst.size()) {
    src.copyTo(dst);
    return;
  }
  if (filter == Filter::kNearest) {
    resize_nearest(src, dst);
    return;
  }
  const Taps columns = make_taps(src.cols, dst.cols, filter);
  const Taps rows = make_taps(src.rows, dst.rows, filter);
  // Rows of the horizontal pass that the vertical one needs.
  const int first = rows.first.front();
  const int last = rows.first.back() + rows.count.back();
  cv::Mat narrow;
  if (src.cols == dst.cols) {
    narrow = src.rowRange(first, last);
  } else {
    narrow.create(last - first, dst.cols, CV_8UC3);
    for (int y = first; y < last; ++y) {
      convolve_row(src.ptr<uint8_t>(y), columns, dst.cols, narrow.ptr<uint8_t>(y - first));
    }
  }
  if (src.rows == dst.rows) {
    narrow.copyTo(dst);
    return;
  }
  std::vector<std::int32_t> sums(static_cast<std::size_t>(3 * dst.cols));
  for (int y = 0; y < dst.rows; ++y) {
    const auto at = static_cast<std::size_t>(y);
    std::fill(sums.begin(), sums.end(), 1 << (kPrecision - 1));
    const std::int32_t* weight = rows.weight.data() + at * static_cast<std::size_t>(rows.width);
    for (int j = 0; j < rows.count[at]; ++j) {
      add_row(narrow.ptr<uint8_t>(rows.first[at] + j - first), weight[j], 3 * dst.cols,
              sums.data());
    }
    store_row(sums.data(), 3 * dst.cols, dst.ptr<uint8_t>(y));
  }
}

void affine(const cv::Mat& src, const std::array<double, 6>& m, Filter filter,
            const cv::Vec3b& fill, cv::Mat dst) {
  dst.setTo(cv::Scalar(fill[0], fill[1], fill[2]));
  if (filter == Filter::kNearest) {
    affine_nearest(src, m, dst);
    return;
  }
  for (int y = 0; y < dst.rows; ++y) {
    auto* out = dst.ptr<uint8_t>(y);
    for (int x = 0; x < dst.cols; ++x) {
      const double px = x + 0.5, py = y + 0.5;
      sample_bilinear(src, m[0] * px + m[1] * py + m[2], m[3] * px + m[4] * py + m[5], out + 3 * x);
    }
  }
}

Rotation rotation(cv::Size size, double degrees, bool expand, std::optional<cv::Point2d> center) {
  degrees = std::fmod(degrees, 360.0);
  const double w = size.width, h = size.height;
  const cv::Point2d c = center.value_or(cv::Point2d(w / 2.0, h / 2.0));
  const double angle = -degrees * kPi / 180.0;
  const auto tidy = [](double v) { return std::round(v * 1e15) / 1e15; };
  std::array<double, 6> m{tidy(std::cos(angle)),  tidy(std::sin(angle)), 0.0,
                          tidy(-std::sin(angle)), tidy(std::cos(angle)), 0.0};
  const auto map_x = [&](double x, double y) { return m[0] * x + m[1] * y + m[2]; };
  const auto map_y = [&](double x, double y) { return m[3] * x + m[4] * y + m[5]; };
  const double shift_x = map_x(-c.x, -c.y) + c.x, shift_y = map_y(-c.x, -c.y) + c.y;
  m[2] = shift_x;
  m[5] = shift_y;
  if (!expand) return {m, size};
  const std::array<std::pair<double, double>, 4> corners{{{0, 0}, {w, 0}, {w, h}, {0, h}}};
  double x1 = 1e30, y1 = 1e30, x2 = -1e30, y2 = -1e30;
  for (const auto& [x, y] : corners) {
    x1 = std::min(x1, map_x(x, y)), x2 = std::max(x2, map_x(x, y));
    y1 = std::min(y1, map_y(x, y)), y2 = std::max(y2, map_y(x, y));
  }
  const cv::Size grown(static_cast<int>(std::ceil(x2) - std::floor(x1)),
                       static_cast<int>(std::ceil(y2) - std::floor(y1)));
  const double dx = -(grown.width - w) / 2.0, dy = -(grown.height - h) / 2.0;
  const double grown_x = map_x(dx, dy), grown_y = map_y(dx, dy);
  m[2] = grown_x;
  m[5] = grown_y;
  return {m, grown};
}

void rotate(const cv::Mat& src, double degrees, Filter filter, const cv::Vec3b& fill, cv::Mat dst) {
  affine(src, rotation(src.size(), degrees, false, std::nullopt).matrix, filter, fill, dst);
}

}  // namespace sgtrain::data::pillow
