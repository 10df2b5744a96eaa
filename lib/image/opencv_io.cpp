// Built as a MODULE library of its own, never linked: see opencv_io.h.
#include "image/opencv_io.h"

#include <climits>
#include <opencv2/imgcodecs.hpp>

namespace sgtrain::image {
namespace {

bool decode(const std::uint8_t* bytes, std::size_t size, cv::Mat* out, std::string* error) {
  try {
    if (size > INT_MAX) {
      *error = "the file is too large";
      return false;
    }
    const cv::Mat raw(1, static_cast<int>(size), CV_8UC1, const_cast<std::uint8_t*>(bytes));
    *out =
        cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_ANYDEPTH | cv::IMREAD_IGNORE_ORIENTATION);
    if (out->empty()) *error = "OpenCV cannot read it";
    return !out->empty();
  } catch (const std::exception& problem) {
    *error = problem.what();
    return false;
  }
}

bool encode(const cv::Mat* image, const char* suffix, std::vector<std::uint8_t>* out,
            std::string* error) {
  try {
    if (cv::imencode(suffix, *image, *out)) return true;
    *error = "OpenCV cannot write it";
  } catch (const std::exception& problem) {
    *error = problem.what();
  }
  return false;
}

}  // namespace
}  // namespace sgtrain::image

extern "C" __attribute__((visibility("default"))) const sgtrain::image::OpencvIo*
sgtrain_opencv_io() {
  static const sgtrain::image::OpencvIo functions{
      .version = sgtrain::image::kOpencvIoVersion,
      .decode = sgtrain::image::decode,
      .encode = sgtrain::image::encode,
  };
  return &functions;
}
