// The decoders behind image.h. Private to image/.
#pragma once

#include <string>
#include <string_view>

#include "image/image.h"

namespace sgtrain::image {

/// Stored pixels of one file before orientation. Throws core::Error with `name`.
struct Stored {
  cv::Mat rgb;          // CV_8UC3, RGB, as stored
  std::string problem;  // not empty: damaged, what the library said
};

Stored decode_jpeg(Bytes bytes, std::string_view name, const DecodeOptions& options,
                   const Info& info);
Stored decode_png(Bytes bytes, std::string_view name, const DecodeOptions& options,
                  const Info& info);
Stored decode_webp(Bytes bytes, std::string_view name, const DecodeOptions& options,
                   const Info& info);
/// Everything else, through the module.
Stored decode_with_module(Bytes bytes, std::string_view name, const DecodeOptions& options);
/// Encodes by suffix (".bmp") through the module.
std::vector<std::uint8_t> encode_with_module(const cv::Mat& image, const std::string& suffix);

/// Four channels (RGBA) to three.
cv::Mat flatten_alpha(const cv::Mat& rgba, Alpha alpha);

[[noreturn]] void fail_decode(std::string_view name, std::string_view what);

}  // namespace sgtrain::image
