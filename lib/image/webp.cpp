// WebP through libwebp. A truncated file is decoded as far as it goes by the incremental decoder.
#include <webp/decode.h>

#include <memory>

#include "image/codecs.h"

namespace sgtrain::image {

Stored decode_webp(Bytes bytes, std::string_view name, const DecodeOptions& options,
                   const Info& info) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) fail_decode(name, "libwebp of another version");
  if (WebPGetFeatures(bytes.data(), bytes.size(), &config.input) != VP8_STATUS_OK) {
    fail_decode(name, "not a readable WebP header");
  }
  if (config.input.has_animation != 0) fail_decode(name, "animated WebP is not supported");
  if (cv::Size(config.input.width, config.input.height) != info.stored) {
    fail_decode(name, "its two headers name different sizes");
  }
  cv::Mat rgba(config.input.height, config.input.width, CV_8UC4, cv::Scalar(0, 0, 0, 255));
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = rgba.data;
  config.output.u.RGBA.stride = static_cast<int>(rgba.step);
  config.output.u.RGBA.size = rgba.step * static_cast<std::size_t>(rgba.rows);

  const std::unique_ptr<WebPIDecoder, decltype(&WebPIDelete)> decoder(
      WebPIDecode(nullptr, 0, &config), WebPIDelete);
  if (!decoder) fail_decode(name, "no memory for a WebP decoder");
  const VP8StatusCode status = WebPIUpdate(decoder.get(), bytes.data(), bytes.size());
  Stored stored;
  if (status != VP8_STATUS_OK) {
    int rows = 0;
    WebPIDecGetRGB(decoder.get(), &rows, nullptr, nullptr, nullptr);
    if (rows <= 0) fail_decode(name, "damaged WebP data");
    stored.problem =
        status == VP8_STATUS_SUSPENDED ? "the file ends too early" : "damaged WebP data";
  }
  stored.rgb = flatten_alpha(rgba, config.input.has_alpha != 0 ? options.alpha : Alpha::kDrop);
  return stored;
}

}  // namespace sgtrain::image
