// Finds and opens the module of opencv_io.h: beside the executable, then in ../lib.
#include <dlfcn.h>

#include <filesystem>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "core/process.h"
#include "image/codecs.h"
#include "image/opencv_io.h"

namespace sgtrain::image {
namespace {

const OpencvIo& open_module() {
  namespace fs = std::filesystem;
  const fs::path here = core::executable_path().parent_path();
  std::string tried;
  for (const fs::path& folder : {here, here / "../lib/sgtrain", here / "../lib"}) {
    const fs::path file = (folder / kOpencvIoFile).lexically_normal();
    std::error_code ignored;
    if (!fs::exists(file, ignored)) {
      tried += "\n  " + file.native() + ": not there";
      continue;
    }
    void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      tried += "\n  " + file.native() + ": " + ::dlerror();
      continue;
    }
    const auto entry = reinterpret_cast<OpencvIoEntry>(::dlsym(handle, kOpencvIoSymbol));
    const OpencvIo* functions = entry != nullptr ? entry() : nullptr;
    if (functions != nullptr && functions->version == kOpencvIoVersion) return *functions;
    tried += "\n  " + file.native() + ": of another version of sgtrain";
  }
  throw core::Error(
      "this kind of image needs the module sgtrain_opencv_io, which was not found; tried:" + tried,
      {}, "install it beside sgtrain, or convert the image to JPEG, PNG or WebP");
}

/// Opened once and kept; a failure is tried again at the next use.
const OpencvIo& module() {
  static const OpencvIo& functions = open_module();
  return functions;
}

}  // namespace

Stored decode_with_module(Bytes bytes, std::string_view name, const DecodeOptions& options) {
  cv::Mat bgr;
  std::string error;
  bool done = false;
  try {
    done = module().decode(bytes.data(), bytes.size(), &bgr, &error);
  } catch (const core::Error& problem) {
    fail_decode(name, problem.what());
  }
  if (!done) fail_decode(name, error);
  if (std::int64_t{bgr.cols} * bgr.rows > options.max_pixels) fail_decode(name, "too many pixels");
  if (bgr.depth() == CV_16U) {
    bgr.convertTo(bgr, CV_8U, 1.0 / 257.0);
  } else if (bgr.depth() != CV_8U) {
    fail_decode(name, "pixels are neither 8 nor 16 bits wide");
  }
  Stored stored;
  if (bgr.channels() == 1) {
    cv::cvtColor(bgr, stored.rgb, cv::COLOR_GRAY2RGB);
  } else {
    cv::cvtColor(bgr, stored.rgb, cv::COLOR_BGR2RGB);
  }
  return stored;
}

std::vector<std::uint8_t> encode_with_module(const cv::Mat& image, const std::string& suffix) {
  cv::Mat bgr;  // memory of its own: the caller's image stays as it is
  if (image.channels() == 3) {
    cv::cvtColor(image, bgr, cv::COLOR_RGB2BGR);
  } else {
    bgr = image;
  }
  std::vector<std::uint8_t> out;
  std::string error;
  if (!module().encode(&bgr, suffix.c_str(), &out, &error)) {
    throw core::Error("cannot write an image as '" + suffix + "': " + error);
  }
  return out;
}

}  // namespace sgtrain::image
