// Pillow operations by text, so that a golden, a Python peer and a test program name them alike:
//   resize W H FILTER · affine A B C D E F FILTER · rotate DEGREES FILTER · autocontrast · equalize
//   · invert · solarize T · solarize_add N · posterize BITS · color F · contrast F · brightness F ·
//   sharpness F · hue F · grayscale
#pragma once

#include <opencv2/core.hpp>
#include <sstream>
#include <string>

#include "core/error.h"
#include "data/pillow.h"

namespace sgtrain::support {

inline data::pillow::Filter read_filter(std::istream& in) {
  std::string name;
  in >> name;
  const auto filter = data::pillow::filter_of(name);
  if (!filter) throw core::Error("unknown filter '" + name + "'");
  return *filter;
}

/// Fill colour of affine maps and rotations.
inline const cv::Vec3b kPillowFill{124, 116, 104};

inline cv::Mat run_pillow_op(const cv::Mat& image, const std::string& line) {
  namespace pillow = data::pillow;
  std::istringstream in(line);
  std::string op;
  in >> op;
  cv::Mat out = image.clone();
  double factor = 0.0;
  if (op == "resize") {
    int width = 0, height = 0;
    in >> width >> height;
    out.create(height, width, CV_8UC3);
    pillow::resize(image, read_filter(in), out);
  } else if (op == "affine") {
    std::array<double, 6> m{};
    for (double& v : m) in >> v;
    pillow::affine(image, m, read_filter(in), kPillowFill, out);
  } else if (op == "rotate") {
    in >> factor;
    pillow::rotate(image, factor, read_filter(in), kPillowFill, out);
  } else if (op == "autocontrast") {
    pillow::autocontrast(out);
  } else if (op == "equalize") {
    pillow::equalize(out);
  } else if (op == "invert") {
    pillow::invert(out);
  } else if (op == "grayscale") {
    pillow::grayscale(out);
  } else {
    in >> factor;
    const int whole = static_cast<int>(factor);
    if (op == "solarize")
      pillow::solarize(out, whole);
    else if (op == "solarize_add")
      pillow::solarize_add(out, whole);
    else if (op == "posterize")
      pillow::posterize(out, whole);
    else if (op == "color")
      pillow::color(out, factor);
    else if (op == "contrast")
      pillow::contrast(out, factor);
    else if (op == "brightness")
      pillow::brightness(out, factor);
    else if (op == "sharpness")
      pillow::sharpness(out, factor);
    else if (op == "hue")
      pillow::hue(out, factor);
    else
      throw core::Error("unknown operation '" + op + "'");
  }
  if (!in && !in.eof()) throw core::Error("cannot read '" + line + "'");
  return out;
}

}  // namespace sgtrain::support
