#include "data/pillow.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace sgtrain::data::pillow {
namespace {

using std::uint8_t;

// ------------------------------------------------------- tables, histograms

using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int, 256>;

/// One table for each channel.
void apply_tables(cv::Mat& image, const std::array<Table, 3>& tables) {
  for (int y = 0; y < image.rows; ++y) {
    auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) {
      pixel[0] = tables[0][pixel[0]];
      pixel[1] = tables[1][pixel[1]];
      pixel[2] = tables[2][pixel[2]];
    }
  }
}

template <class Function>
void apply_table(cv::Mat& image, Function&& value) {
  Table table{};
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] = static_cast<uint8_t>(std::clamp(value(i), 0, 255));
  }
  apply_tables(image, {table, table, table});
}

std::array<Histogram, 3> histograms(const cv::Mat& image) {
  std::array<Histogram, 3> out{};
  for (int y = 0; y < image.rows; ++y) {
    const auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) {
      for (std::size_t c = 0; c < 3; ++c) ++out[c][pixel[c]];
    }
  }
  return out;
}

Table identity_table() {
  Table table{};
  for (std::size_t i = 0; i < 256; ++i) table[i] = static_cast<uint8_t>(i);
  return table;
}

// --------------------------------------------------------------- enhancement

int luma(const uint8_t* p) {
  return (p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16;
}

/// Image.blend(degenerate, original, factor) of one byte.
uint8_t blend(int degenerate, int original, float factor) {
  const float value =
      static_cast<float>(degenerate) + factor * static_cast<float>(original - degenerate);
  if (factor >= 0.0F && factor <= 1.0F) return static_cast<uint8_t>(value);
  return value <= 0.0F ? 0 : value >= 255.0F ? 255 : static_cast<uint8_t>(value);
}

template <class Degenerate>
void enhance(cv::Mat& image, double factor, Degenerate&& degenerate) {
  const auto f = static_cast<float>(factor);
  for (int y = 0; y < image.rows; ++y) {
    auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) {
      const int gray = degenerate(pixel);
      for (int c = 0; c < 3; ++c) pixel[c] = blend(gray, pixel[c], f);
    }
  }
}

/// Pillow's 8-bit HSV.
void to_hsv(const uint8_t* rgb, int* hsv) {
  const int r = rgb[0], g = rgb[1], b = rgb[2];
  const int high = std::max({r, g, b}), low = std::min({r, g, b});
  hsv[2] = high;
  if (low == high) {
    hsv[0] = hsv[1] = 0;
    return;
  }
  const auto range = static_cast<float>(high - low);
  const float s = range / static_cast<float>(high);
  const float rc = static_cast<float>(high - r) / range;
  const float gc = static_cast<float>(high - g) / range;
  const float bc = static_cast<float>(high - b) / range;
  float h = 0.0F;
  if (r == high) {
    h = bc - gc;
  } else if (g == high) {
    h = static_cast<float>(2.0 + rc - bc);
  } else {
    h = static_cast<float>(4.0 + gc - rc);
  }
  h = static_cast<float>(std::fmod(h / 6.0 + 1.0, 1.0));
  hsv[0] = std::clamp(static_cast<int>(h * 255.0), 0, 255);
  hsv[1] = std::clamp(static_cast<int>(s * 255.0), 0, 255);
}

void to_rgb(const int* hsv, uint8_t* rgb) {
  const int v = hsv[2];
  if (hsv[1] == 0) {
    rgb[0] = rgb[1] = rgb[2] = static_cast<uint8_t>(v);
    return;
  }
  const double sixth = static_cast<float>(hsv[0]) * 6.0 / 255.0;
  const int sector = static_cast<int>(std::floor(sixth));
  const float f = static_cast<float>(sixth - static_cast<float>(sector));
  const float s = static_cast<float>(hsv[1] / 255.0);
  const auto byte = [v](double factor) {
    return static_cast<uint8_t>(
        std::clamp(static_cast<int>(std::round(static_cast<float>(v) * factor)), 0, 255));
  };
  const uint8_t p = byte(1.0 - s), q = byte(1.0 - s * f), t = byte(1.0 - s * (1.0 - f));
  const auto u = static_cast<uint8_t>(v);
  const std::array<std::array<uint8_t, 3>, 6> sectors{
      {{u, t, p}, {q, u, p}, {p, u, t}, {p, q, u}, {t, p, u}, {u, p, q}}};
  std::copy_n(sectors[static_cast<std::size_t>(sector % 6)].begin(), 3, rgb);
}

}  // namespace

void autocontrast(cv::Mat& image) {
  const auto counts = histograms(image);
  std::array<Table, 3> tables;
  for (std::size_t c = 0; c < 3; ++c) {
    tables[c] = identity_table();
    int low = 0, high = 255;
    while (low < 256 && counts[c][static_cast<std::size_t>(low)] == 0) ++low;
    while (high >= 0 && counts[c][static_cast<std::size_t>(high)] == 0) --high;
    if (high <= low) continue;
    const double scale = 255.0 / (high - low);
    const double offset = -low * scale;
    for (int i = 0; i < 256; ++i) {
      tables[c][static_cast<std::size_t>(i)] =
          static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
    }
  }
  apply_tables(image, tables);
}

void equalize(cv::Mat& image) {
  const auto counts = histograms(image);
  std::array<Table, 3> tables;
  for (std::size_t c = 0; c < 3; ++c) {
    tables[c] = identity_table();
    int used = 0, total = 0, last = 0;
    for (const int count : counts[c]) {
      if (count == 0) continue;
      ++used;
      total += count;
      last = count;
    }
    const int step = (total - last) / 255;
    if (used <= 1 || step == 0) continue;
    int n = step / 2;
    for (std::size_t i = 0; i < 256; ++i) {
      tables[c][i] = static_cast<uint8_t>(std::min(n / step, 255));
      n += counts[c][i];
    }
  }
  apply_tables(image, tables);
}

void invert(cv::Mat& image) {
  apply_table(image, [](int v) { return 255 - v; });
}

void solarize(cv::Mat& image, int threshold) {
  apply_table(image, [=](int v) { return v < threshold ? v : 255 - v; });
}

void solarize_add(cv::Mat& image, int add, int threshold) {
  apply_table(image, [=](int v) { return v < threshold ? std::min(255, v + add) : v; });
}

void posterize(cv::Mat& image, int bits) {
  if (bits >= 8) return;
  const int mask = ~((1 << (8 - std::max(bits, 0))) - 1);
  apply_table(image, [=](int v) { return v & mask; });
}

void color(cv::Mat& image, double factor) {
  enhance(image, factor, luma);
}

void contrast(cv::Mat& image, double factor) {
  std::int64_t sum = 0;
  for (int y = 0; y < image.rows; ++y) {
    const auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) sum += luma(pixel);
  }
  const int mean =
      static_cast<int>(static_cast<double>(sum) / static_cast<double>(image.total()) + 0.5);
  enhance(image, factor, [mean](const uint8_t*) { return mean; });
}

void brightness(cv::Mat& image, double factor) {
  enhance(image, factor, [](const uint8_t*) { return 0; });
}

void sharpness(cv::Mat& image, double factor) {
  // The degenerate image is smoothed by [1 1 1; 1 5 1; 1 1 1] / 13; its border stays.
  const auto f = static_cast<float>(factor);
  const cv::Mat original = image.clone();
  constexpr float kSide = 1.0F / 13.0F, kCenter = 5.0F / 13.0F;
  for (int y = 0; y < image.rows; ++y) {
    auto* out = image.ptr<uint8_t>(y);
    const bool inner_row = y > 0 && y + 1 < image.rows;
    const auto* here = original.ptr<uint8_t>(y);
    const auto* above = original.ptr<uint8_t>(std::max(y - 1, 0));
    const auto* below = original.ptr<uint8_t>(std::min(y + 1, image.rows - 1));
    for (int i = 0; i < 3 * image.cols; ++i) {
      const bool inner = inner_row && i >= 3 && i + 3 < 3 * image.cols;
      int smooth = here[i];
      if (inner) {
        float sum = 0.5F;
        sum += below[i - 3] * kSide + below[i] * kSide + below[i + 3] * kSide;
        sum += here[i - 3] * kSide + here[i] * kCenter + here[i + 3] * kSide;
        sum += above[i - 3] * kSide + above[i] * kSide + above[i + 3] * kSide;
        smooth = std::clamp(static_cast<int>(sum), 0, 255);
      }
      out[i] = blend(smooth, here[i], f);
    }
  }
}

void hue(cv::Mat& image, double factor) {
  const int add = static_cast<int>(factor * 255.0);
  for (int y = 0; y < image.rows; ++y) {
    auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) {
      std::array<int, 3> hsv{};
      to_hsv(pixel, hsv.data());
      hsv[0] = (hsv[0] + add) & 255;
      to_rgb(hsv.data(), pixel);
    }
  }
}

void grayscale(cv::Mat& image) {
  for (int y = 0; y < image.rows; ++y) {
    auto* pixel = image.ptr<uint8_t>(y);
    for (int x = 0; x < image.cols; ++x, pixel += 3) {
      const auto gray = static_cast<uint8_t>(luma(pixel));
      pixel[0] = pixel[1] = pixel[2] = gray;
    }
  }
}

}  // namespace sgtrain::data::pillow
