// JPEG through libjpeg-turbo. libjpeg reports errors by longjmp, so every call into it goes through
// `guarded`, whose callables own nothing that needs a destructor.
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
// jpeglib.h needs FILE from <cstdio>.
#include <jpeglib.h>

#include "core/error.h"
#include "image/codecs.h"

namespace sgtrain::image {
namespace {

constexpr int kMaxScans = 1000;  // a progressive file of more scans is an attack on our time

struct ErrorManager {
  jpeg_error_mgr base{};
  jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = {};
  bool warned = false;
};

ErrorManager& manager_of(j_common_ptr info) {
  return *reinterpret_cast<ErrorManager*>(info->err);
}

void keep_message(j_common_ptr info) {
  ErrorManager& errors = manager_of(info);
  errors.base.format_message(info, errors.message);
}

[[noreturn]] void on_error(j_common_ptr info) {
  keep_message(info);
  longjmp(manager_of(info).jump, 1);
}

void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // trace messages
  ErrorManager& errors = manager_of(info);
  if (!errors.warned) keep_message(info);
  errors.warned = true;
}

void silent(j_common_ptr) {}

void install(ErrorManager& errors) {
  jpeg_std_error(&errors.base);
  errors.base.error_exit = on_error;
  errors.base.emit_message = on_message;
  errors.base.output_message = silent;
}

template <class Step>
bool guarded(ErrorManager& errors, const Step& step) {
  if (setjmp(errors.jump) != 0) return false;
  step();
  return true;
}

void stop_after_many_scans(j_common_ptr info) {
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    std::snprintf(manager_of(info).message, JMSG_LENGTH_MAX, "more than %d scans", kMaxScans);
    longjmp(manager_of(info).jump, 1);
  }
}

struct Decoder {
  ErrorManager errors;
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct info{};

  Decoder() {
    install(errors);
    info.err = &errors.base;
    jpeg_create_decompress(&info);
    progress.progress_monitor = stop_after_many_scans;
    info.progress = &progress;
  }
  ~Decoder() { jpeg_destroy_decompress(&info); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
};

/// Largest of 1, 2, 4, 8 that keeps both upright sides at least as large as asked.
unsigned reduction(const DecodeOptions& options, const Info& info) {
  if (options.min_width <= 0 || options.min_height <= 0) return 1;
  const bool turned = options.honor_exif && info.orientation >= 5;
  const int need_width = turned ? options.min_height : options.min_width;
  const int need_height = turned ? options.min_width : options.min_height;
  for (const int denominator : {8, 4, 2}) {
    const auto reduced = [&](int side) { return (side + denominator - 1) / denominator; };
    if (reduced(info.stored.width) >= need_width && reduced(info.stored.height) >= need_height) {
      return static_cast<unsigned>(denominator);
    }
  }
  return 1;
}

/// Adobe stores inks inverted (255 = no ink); files without its marker store them straight.
void cmyk_row_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, int width, bool inverted) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    for (int c = 0; c < 3; ++c) {
      const int light = inverted ? cmyk[c] : 255 - cmyk[c];
      const int white = inverted ? cmyk[3] : 255 - cmyk[3];
      rgb[c] = static_cast<std::uint8_t>((light * white + 127) / 255);
    }
  }
}

void read_rows(Decoder& decoder, cv::Mat& rgb, std::uint8_t* cmyk_row) {
  jpeg_decompress_struct& info = decoder.info;
  while (info.output_scanline < info.output_height) {
    std::uint8_t* target = rgb.ptr(static_cast<int>(info.output_scanline));
    JSAMPROW row = cmyk_row != nullptr ? cmyk_row : target;
    if (jpeg_read_scanlines(&info, &row, 1) != 1) return;
    if (cmyk_row != nullptr) {
      cmyk_row_to_rgb(cmyk_row, target, rgb.cols, info.saw_Adobe_marker != 0);
    }
  }
  jpeg_finish_decompress(&info);
}

}  // namespace

Stored decode_jpeg(Bytes bytes, std::string_view name, const DecodeOptions& options,
                   const Info& info) {
  const auto decoder = std::make_unique<Decoder>();
  jpeg_decompress_struct& jpeg = decoder->info;
  const bool started = guarded(decoder->errors, [&] {
    jpeg_mem_src(&jpeg, bytes.data(), bytes.size());
    jpeg_read_header(&jpeg, TRUE);
    const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg.scale_num = 1;
    jpeg.scale_denom = reduction(options, info);
    jpeg_calc_output_dimensions(&jpeg);
  });
  if (!started) fail_decode(name, decoder->errors.message);
  if (static_cast<std::int64_t>(jpeg.image_width) * jpeg.image_height > options.max_pixels) {
    fail_decode(name, "too many pixels");
  }

  Stored stored;
  stored.rgb.create(static_cast<int>(jpeg.output_height), static_cast<int>(jpeg.output_width),
                    CV_8UC3);
  std::vector<std::uint8_t> inks;
  if (jpeg.out_color_space == JCS_CMYK) inks.resize(std::size_t{jpeg.output_width} * 4);
  const bool complete = guarded(decoder->errors, [&] {
    jpeg_start_decompress(&jpeg);
    read_rows(*decoder, stored.rgb, inks.empty() ? nullptr : inks.data());
  });
  if (!complete) {
    if (jpeg.output_scanline == 0) fail_decode(name, decoder->errors.message);
    stored.rgb.rowRange(static_cast<int>(jpeg.output_scanline), stored.rgb.rows) =
        cv::Scalar::all(0);
  }
  if (!complete || decoder->errors.warned) stored.problem = decoder->errors.message;
  return stored;
}

namespace {

struct Encoder {
  ErrorManager errors;
  jpeg_compress_struct info{};
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's type

  Encoder() {
    install(errors);
    info.err = &errors.base;
    jpeg_create_compress(&info);
  }
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(buffer);  // allocated by libjpeg with malloc
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
};

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const cv::Mat& image, int quality) {
  if (image.empty() || (image.type() != CV_8UC3 && image.type() != CV_8UC1)) {
    throw core::Error("a JPEG needs an 8-bit image of 1 or 3 channels");
  }
  if (image.cols > JPEG_MAX_DIMENSION || image.rows > JPEG_MAX_DIMENSION) {
    throw core::Error("a JPEG holds at most 65500 x 65500 pixels");
  }
  const auto encoder = std::make_unique<Encoder>();
  jpeg_compress_struct& jpeg = encoder->info;
  const bool done = guarded(encoder->errors, [&] {
    jpeg_mem_dest(&jpeg, &encoder->buffer, &encoder->size);
    jpeg.image_width = static_cast<JDIMENSION>(image.cols);
    jpeg.image_height = static_cast<JDIMENSION>(image.rows);
    jpeg.input_components = image.channels();
    jpeg.in_color_space = image.channels() == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, std::min(std::max(quality, 1), 100), TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<JSAMPROW>(image.ptr(static_cast<int>(jpeg.next_scanline)));
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  if (!done) throw core::Error(std::string("cannot write JPEG: ") + encoder->errors.message);
  return {encoder->buffer, encoder->buffer + encoder->size};
}

}  // namespace sgtrain::image
