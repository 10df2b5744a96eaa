#include "image/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <opencv2/imgproc.hpp>

#include "core/error.h"

namespace sgtrain::image {
namespace {

constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;

/// Control points of matplotlib's gist_rainbow: position, red, green, blue in 0..1.
constexpr std::array<std::array<double, 4>, 8> kRainbow = {{{0.000, 1.00, 0.00, 0.16},
                                                            {0.030, 1.00, 0.00, 0.00},
                                                            {0.215, 1.00, 1.00, 0.00},
                                                            {0.400, 0.00, 1.00, 0.00},
                                                            {0.586, 0.00, 1.00, 1.00},
                                                            {0.770, 0.00, 0.00, 1.00},
                                                            {0.954, 1.00, 0.00, 1.00},
                                                            {1.000, 1.00, 0.00, 0.75}}};

cv::Scalar rainbow(double position) {
  std::size_t next = 1;
  while (next + 1 < kRainbow.size() && kRainbow[next][0] < position) ++next;
  const auto& low = kRainbow[next - 1];
  const auto& high = kRainbow[next];
  const double part = (position - low[0]) / (high[0] - low[0]);
  cv::Scalar reversed;
  for (std::size_t c = 0; c < 3; ++c) {
    const double value = low[c + 1] + part * (high[c + 1] - low[c + 1]);
    reversed[static_cast<int>(2 - c)] = std::floor(value * 255.0);
  }
  return reversed;
}

/// Black or white, whichever stands out (ITU-R BT.601 luma).
cv::Scalar text_color_on(const cv::Scalar& rgb) {
  const double luma = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
  return luma > 127 ? cv::Scalar(0, 0, 0) : cv::Scalar(255, 255, 255);
}

std::string box_text(const LabelledBox& box, std::span<const std::string> names,
                     bool show_confidence) {
  std::string text = box.label >= 0 && static_cast<std::size_t>(box.label) < names.size()
                         ? names[static_cast<std::size_t>(box.label)]
                         : std::to_string(box.label);
  if (show_confidence && box.score >= 0) {
    std::array<char, 16> score{};
    std::snprintf(score.data(), score.size(), " %.2f", static_cast<double>(box.score));
    text += score.data();
  }
  return text;
}

/// A filled rectangle with text, standing on (x, y); moved inside when it would leave the image.
void draw_text_box(cv::Mat& rgb, const std::string& text, cv::Point at, double scale,
                   const cv::Scalar& background) {
  constexpr int kLeft = 7;  // blank pixels before the text
  int baseline = 0;
  const cv::Size size = cv::getTextSize(text, kFont, scale, 1, &baseline);
  const cv::Size box(size.width + kLeft, size.height + static_cast<int>(15 * scale));
  at.x = std::max(0, std::min(at.x, rgb.cols - box.width));
  at.y = std::max(at.y, box.height);
  cv::rectangle(rgb, at, cv::Point(at.x + box.width, at.y - box.height), background, cv::FILLED);
  cv::putText(rgb, text, cv::Point(at.x + kLeft, at.y - static_cast<int>(10 * scale)), kFont, scale,
              text_color_on(background), 1, cv::LINE_AA);
}

int clamp_coordinate(float value, int size) {
  if (!(value > 0)) return 0;  // NaN too
  return value >= static_cast<float>(size) ? size - 1 : static_cast<int>(value);
}

}  // namespace

std::vector<cv::Scalar> class_colors(int classes) {
  if (classes < 1 || classes > 1'000'000) throw core::Error("number of colours out of range");
  std::vector<cv::Scalar> colors;
  for (int i = 0; i < classes; ++i) {
    // A map of one entry shows its last colour.
    colors.push_back(rainbow(classes == 1 ? 1.0 : static_cast<double>(i) / (classes - 1)));
  }
  return colors;
}

void draw_boxes(cv::Mat& rgb, std::span<const LabelledBox> boxes,
                std::span<const std::string> class_names, const DrawOptions& options) {
  if (rgb.empty()) return;
  int classes = std::max<int>(1, static_cast<int>(class_names.size()));
  for (const LabelledBox& box : boxes) classes = std::max(classes, std::min(box.label, 99'999) + 1);
  const auto colors = class_colors(classes);
  for (const LabelledBox& box : boxes) {
    const cv::Point low(clamp_coordinate(box.x1, rgb.cols), clamp_coordinate(box.y1, rgb.rows));
    const cv::Point high(clamp_coordinate(box.x2, rgb.cols), clamp_coordinate(box.y2, rgb.rows));
    const double diagonal = std::hypot(high.x - low.x, high.y - low.y);
    const int automatic = diagonal <= 100 ? 1 : diagonal <= 200 ? 2 : 3;
    const double scale = std::clamp(diagonal * 0.0015 + 0.25, 0.4, 0.7);
    const cv::Scalar& color =
        colors[static_cast<std::size_t>(std::clamp(box.label, 0, classes - 1))];
    cv::Mat overlay = rgb.clone();
    cv::rectangle(overlay, low, high, color, options.thickness > 0 ? options.thickness : automatic);
    draw_text_box(overlay, box_text(box, class_names, options.show_confidence), low, scale, color);
    cv::addWeighted(overlay, options.alpha, rgb, 1 - options.alpha, 0, rgb);
  }
}

void draw_caption(cv::Mat& rgb, const std::string& text, const cv::Scalar& background) {
  if (rgb.empty()) return;
  int baseline = 0;
  double scale = std::clamp(rgb.cols / 400.0, 0.35, 1.0);
  const int width = cv::getTextSize(text, kFont, scale, 1, &baseline).width;
  if (width > rgb.cols) scale = std::max(0.2, scale * rgb.cols / width);
  draw_text_box(rgb, text, {0, 0}, scale, background);
}

cv::Mat image_grid(std::span<const cv::Mat> images, std::span<const std::string> captions,
                   const GridOptions& options, std::span<const cv::Scalar> caption_colors) {
  if (images.empty()) throw core::Error("a grid needs images");
  if (!captions.empty() && captions.size() != images.size()) {
    throw core::Error("a grid needs one caption for each image");
  }
  const int count = static_cast<int>(images.size());
  const int columns = options.columns > 0
                          ? std::min(options.columns, count)
                          : static_cast<int>(std::ceil(std::sqrt(static_cast<double>(count))));
  const int rows = (count + columns - 1) / columns;
  const int strip = captions.empty() ? 0 : 22;  // pixels for one line of text
  const cv::Size step(options.cell.width + options.gap, options.cell.height + strip + options.gap);
  cv::Mat grid(rows * step.height + options.gap, columns * step.width + options.gap, CV_8UC3,
               options.background);
  for (int i = 0; i < count; ++i) {
    const cv::Mat& image = images[static_cast<std::size_t>(i)];
    const cv::Point corner(options.gap + i % columns * step.width,
                           options.gap + i / columns * step.height);
    const double ratio = std::min(static_cast<double>(options.cell.width) / image.cols,
                                  static_cast<double>(options.cell.height) / image.rows);
    const cv::Size size(std::max(1, static_cast<int>(image.cols * ratio)),
                        std::max(1, static_cast<int>(image.rows * ratio)));
    cv::Mat fitted;
    cv::resize(image, fitted, size, 0, 0, ratio > 1 ? cv::INTER_NEAREST : cv::INTER_AREA);
    const cv::Point offset((options.cell.width - size.width) / 2,
                           (options.cell.height - size.height) / 2);
    fitted.copyTo(grid(cv::Rect(corner + offset, size)));
    if (captions.empty()) continue;
    const std::string& text = captions[static_cast<std::size_t>(i)];
    int baseline = 0;
    double scale = 0.45;
    const int width = cv::getTextSize(text, kFont, scale, 1, &baseline).width;
    if (width > options.cell.width) scale *= static_cast<double>(options.cell.width) / width;
    const cv::Scalar color = static_cast<std::size_t>(i) < caption_colors.size()
                                 ? caption_colors[static_cast<std::size_t>(i)]
                                 : cv::Scalar(0, 0, 0);
    cv::putText(grid, text, corner + cv::Point(2, options.cell.height + 15), kFont, scale, color, 1,
                cv::LINE_AA);
  }
  return grid;
}

}  // namespace sgtrain::image
