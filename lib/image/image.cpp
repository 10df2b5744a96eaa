#include "image/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <opencv2/core.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/stage_clock.h"
#include "core/text.h"
#include "image/codecs.h"

namespace sgtrain::image {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void fail_errno(std::string_view what, const std::filesystem::path& path) {
  throw core::Error(std::string(what) + ": " + std::strerror(errno), path.native());
}

/// Reads up to `size` bytes; fewer when the file is shorter.
std::vector<std::uint8_t> read_some(int fd, std::size_t size, const std::filesystem::path& path) {
  std::vector<std::uint8_t> bytes(size);
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::read(fd, bytes.data() + have, size - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("cannot read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

std::size_t regular_size(int fd, const std::filesystem::path& path, std::int64_t max_bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail_errno("cannot read", path);
  if (!S_ISREG(status.st_mode)) throw core::Error("not a regular file", path.native());
  if (status.st_size > max_bytes) {
    throw core::Error("the file is larger than " + std::to_string(max_bytes) + " bytes",
                      path.native());
  }
  return static_cast<std::size_t>(status.st_size);
}

Stored decode_stored(Bytes bytes, std::string_view name, const DecodeOptions& options,
                     const Info& info) {
  switch (info.format) {
    case Format::kJpeg:
      return decode_jpeg(bytes, name, options, info);
    case Format::kPng:
      return decode_png(bytes, name, options, info);
    case Format::kWebp:
      return decode_webp(bytes, name, options, info);
    default:
      return decode_with_module(bytes, name, options);
  }
}

void write_bytes(const std::filesystem::path& path, std::span<const std::uint8_t> bytes) {
  core::AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

void fail_decode(std::string_view name, std::string_view what) {
  throw core::Error("cannot decode the image: " + std::string(what), name,
                    "replace or remove the file, or let the run skip bad images");
}

bool has_image_suffix(const std::filesystem::path& path) {
  static constexpr std::array<std::string_view, 14> kSuffixes = {
      ".jpg", ".jpeg", ".jpe",  ".jfif", ".png", ".webp", ".bmp",
      ".dib", ".tif",  ".tiff", ".ppm",  ".pgm", ".pbm",  ".pnm"};
  const std::string& name = path.native();
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || name.size() - dot > 5) return false;
  const std::string suffix = core::lower(std::string_view(name).substr(dot));
  return std::find(kSuffixes.begin(), kSuffixes.end(), suffix) != kSuffixes.end();
}

cv::Mat apply_orientation(const cv::Mat& image, int orientation) {
  // EXIF names where row 0 and column 0 of the stored picture belong.
  cv::Mat out;
  switch (orientation) {
    case 2:
      cv::flip(image, out, 1);
      return out;
    case 3:
      cv::flip(image, out, -1);
      return out;
    case 4:
      cv::flip(image, out, 0);
      return out;
    case 5:
      cv::transpose(image, out);
      return out;
    case 6:
      cv::rotate(image, out, cv::ROTATE_90_CLOCKWISE);
      return out;
    case 7:
      cv::transpose(image, out);
      cv::flip(out, out, -1);
      return out;
    case 8:
      cv::rotate(image, out, cv::ROTATE_90_COUNTERCLOCKWISE);
      return out;
    default:
      return image;
  }
}

Decoded decode(Bytes bytes, std::string_view name, const DecodeOptions& options) {
  const core::StageTimer timer(core::Stage::kDecode);
  Info info = probe(bytes, name);
  if (!options.honor_exif) info.orientation = 1;
  const std::int64_t pixels = std::int64_t{info.stored.width} * info.stored.height;
  if (pixels > options.max_pixels) {
    fail_decode(name, std::to_string(info.stored.width) + " x " +
                          std::to_string(info.stored.height) + " pixels are more than " +
                          std::to_string(options.max_pixels));
  }
  Stored stored = decode_stored(bytes, name, options, info);
  if (!stored.problem.empty() && !options.allow_truncated) fail_decode(name, stored.problem);
  Decoded out{.image = apply_orientation(stored.rgb, info.orientation),
              .full_size = info.upright(),
              .warning = {}};
  if (!stored.problem.empty()) {
    out.warning = std::string(name) + ": damaged " + std::string(format_name(info.format)) +
                  ", decoded as far as possible (" + stored.problem + ")";
  }
  return out;
}

Decoded decode_file(const std::filesystem::path& path, const DecodeOptions& options) {
  return decode(read_file(path), path.native(), options);
}

Info probe_file(const std::filesystem::path& path) {
  constexpr std::size_t kHead = 64 * 1024;  // a frame header is rarely behind more metadata
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_errno("cannot open", path);
  const std::size_t size = regular_size(file.get(), path, INT64_MAX);
  const auto head = read_some(file.get(), std::min(size, kHead), path);
  const Format format = detect_format(head);
  // The place of the size is fixed in these; in JPEG and TIFF it may lie anywhere.
  const bool anywhere = format == Format::kJpeg || format == Format::kTiff;
  if (size <= kHead || !anywhere) return probe(head, path.native());
  try {
    return probe(head, path.native());
  } catch (const core::Error&) {
    return probe(read_file(path), path.native());
  }
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  const core::StageTimer timer(core::Stage::kRead);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_errno("cannot open", path);
  return read_some(file.get(), regular_size(file.get(), path, max_bytes), path);
}

void write_file(const std::filesystem::path& path, const cv::Mat& image, int quality) {
  const std::string suffix = core::lower(path.extension().native());
  if (suffix == ".jpg" || suffix == ".jpeg") {
    write_bytes(path, encode_jpeg(image, quality));
  } else if (suffix == ".png") {
    write_bytes(path, encode_png(image));
  } else {
    write_bytes(path, encode_with_module(image, suffix));
  }
}

}  // namespace sgtrain::image
