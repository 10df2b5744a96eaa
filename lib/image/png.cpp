// PNG through libpng. Errors come by longjmp: see `guarded`; its callables own nothing that needs a
// destructor.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "core/error.h"
#include "image/codecs.h"

namespace sgtrain::image {
namespace {

struct State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes bytes;
  std::size_t at = 0;
  char message[128] = {};
  bool alpha = false;
};

void keep(State& state, const char* message) {
  std::strncpy(state.message, message, sizeof(state.message) - 1);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  keep(*static_cast<State*>(png_get_error_ptr(png)), message);
  png_longjmp(png, 1);
}

/// libpng warns about harmless things too (colour profiles), which nobody wants to read each epoch.
void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, png_size_t count) {
  State& state = *static_cast<State*>(png_get_io_ptr(png));
  if (count > state.bytes.size() - state.at) png_error(png, "the file ends too early");
  std::memcpy(out, state.bytes.data() + state.at, count);
  state.at += count;
}

template <class Step>
bool guarded(State& state, const Step& step) {
  if (setjmp(png_jmpbuf(state.png)) != 0) return false;
  step();
  return true;
}

struct Reader {
  State state;
  explicit Reader(Bytes bytes) {
    state.bytes = bytes;
    state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
    if (state.png != nullptr) state.info = png_create_info_struct(state.png);
    if (state.info == nullptr) throw core::Error("no memory for a PNG decoder");
  }
  ~Reader() { png_destroy_read_struct(&state.png, &state.info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

/// Asks libpng for 8-bit RGB, or RGBA when the file knows transparency.
void expand(State& state) {
  png_structp png = state.png;
  state.alpha = (png_get_color_type(png, state.info) & PNG_COLOR_MASK_ALPHA) != 0 ||
                png_get_valid(png, state.info, PNG_INFO_tRNS) != 0;
  png_set_expand(png);    // palette to RGB, 1/2/4-bit gray to 8, tRNS to alpha
  png_set_scale_16(png);  // round(v / 257)
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, state.info);
}

}  // namespace

cv::Mat flatten_alpha(const cv::Mat& rgba, Alpha alpha) {
  cv::Mat rgb(rgba.rows, rgba.cols, CV_8UC3);
  for (int y = 0; y < rgba.rows; ++y) {
    const std::uint8_t* in = rgba.ptr(y);
    std::uint8_t* out = rgb.ptr(y);
    for (int x = 0; x < rgba.cols; ++x, in += 4, out += 3) {
      const int opacity = alpha == Alpha::kDrop ? 255 : in[3];
      for (int c = 0; c < 3; ++c) {
        out[c] = static_cast<std::uint8_t>((in[c] * opacity + 127) / 255);
      }
    }
  }
  return rgb;
}

Stored decode_png(Bytes bytes, std::string_view name, const DecodeOptions& options,
                  const Info& info) {
  Reader reader(bytes);
  State& state = reader.state;
  const bool started = guarded(state, [&] {
    png_set_read_fn(state.png, &state, read_bytes);
    png_set_user_limits(state.png, 0x7fffffff, 0x7fffffff);  // max_pixels is our limit
    png_read_info(state.png, state.info);
    expand(state);
  });
  if (!started) fail_decode(name, state.message);
  const auto width = static_cast<int>(png_get_image_width(state.png, state.info));
  const auto height = static_cast<int>(png_get_image_height(state.png, state.info));
  const int channels = state.alpha ? 4 : 3;
  if (cv::Size(width, height) != info.stored ||
      png_get_rowbytes(state.png, state.info) != static_cast<std::size_t>(width) * channels) {
    fail_decode(name, "unexpected PNG layout");
  }
  cv::Mat pixels(height, width, CV_8UC(channels), cv::Scalar(0, 0, 0, 255));
  std::vector<png_bytep> rows(static_cast<std::size_t>(height));
  for (int y = 0; y < height; ++y) rows[static_cast<std::size_t>(y)] = pixels.ptr(y);
  png_bytep* row_pointers = rows.data();
  const bool complete = guarded(state, [&] {
    png_read_image(state.png, row_pointers);
    png_read_end(state.png, nullptr);
  });
  Stored stored;
  if (!complete) stored.problem = state.message;
  stored.rgb = state.alpha ? flatten_alpha(pixels, options.alpha) : pixels;
  return stored;
}

namespace {

struct Writer {
  State state;
  std::vector<std::uint8_t> out;
  bool no_memory = false;
  Writer() {
    state.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
    if (state.png != nullptr) state.info = png_create_info_struct(state.png);
    if (state.info == nullptr) throw core::Error("no memory for a PNG encoder");
  }
  ~Writer() { png_destroy_write_struct(&state.png, &state.info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

void write_bytes(png_structp png, png_bytep bytes, png_size_t count) {
  Writer& writer = *static_cast<Writer*>(png_get_io_ptr(png));
  try {
    writer.out.insert(writer.out.end(), bytes, bytes + count);
  } catch (const std::bad_alloc&) {  // no C++ exception may cross libpng
    writer.no_memory = true;
  }
  if (writer.no_memory) png_error(png, "no memory");
}

void flush_nothing(png_structp) {}

int png_color_type(int channels) {
  switch (channels) {
    case 1:
      return PNG_COLOR_TYPE_GRAY;
    case 3:
      return PNG_COLOR_TYPE_RGB;
    case 4:
      return PNG_COLOR_TYPE_RGBA;
    default:
      return -1;
  }
}

}  // namespace

std::vector<std::uint8_t> encode_png(const cv::Mat& image, int compression) {
  const int type = png_color_type(image.channels());
  const bool wide = image.depth() == CV_16U;
  if (image.empty() || type < 0 || (image.depth() != CV_8U && !wide)) {
    throw core::Error("a PNG needs an 8- or 16-bit image of 1, 3 or 4 channels");
  }
  Writer writer;
  State& state = writer.state;
  const bool done = guarded(state, [&] {
    png_set_write_fn(state.png, &writer, write_bytes, flush_nothing);
    png_set_compression_level(state.png, std::min(std::max(compression, 0), 9));
    png_set_IHDR(state.png, state.info, static_cast<png_uint_32>(image.cols),
                 static_cast<png_uint_32>(image.rows), wide ? 16 : 8, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(state.png, state.info);
    if (wide) png_set_swap(state.png);  // PNG is big-endian
    for (int y = 0; y < image.rows; ++y) png_write_row(state.png, image.ptr(y));
    png_write_end(state.png, nullptr);
  });
  if (!done) throw core::Error(std::string("cannot write PNG: ") + state.message);
  return std::move(writer.out);
}

}  // namespace sgtrain::image
