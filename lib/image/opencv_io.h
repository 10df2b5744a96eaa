// The boundary of the module `sgtrain_opencv_io` (OpenCV's imgcodecs). It is opened on first use,
// because Debian's imgcodecs drags in 240 shared libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

namespace sgtrain::image {

/// Functions of the module. They report failure by a text in `error`; no exception crosses.
struct OpencvIo {
  int version = 0;
  /// Bytes → BGR, 8 or 16 bits, as OpenCV reads it (stored orientation).
  bool (*decode)(const std::uint8_t* bytes, std::size_t size, cv::Mat* out, std::string* error);
  /// BGR or gray → bytes; `suffix` with its dot.
  bool (*encode)(const cv::Mat* image, const char* suffix, std::vector<std::uint8_t>* out,
                 std::string* error);
};

inline constexpr int kOpencvIoVersion = 1;
inline constexpr const char* kOpencvIoSymbol = "sgtrain_opencv_io";
inline constexpr const char* kOpencvIoFile = "libsgtrain_opencv_io.so";
using OpencvIoEntry = const OpencvIo* (*)();

}  // namespace sgtrain::image
