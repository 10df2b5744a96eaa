#include "support/image_files.h"

#include <png.h>
#include <webp/encode.h>

#include <jpeglib.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/error.h"

namespace sgtrain::support {

cv::Mat gradient_image(int width, int height) {
  cv::Mat image(height, width, CV_8UC3);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.at<cv::Vec3b>(y, x) = {
          static_cast<std::uint8_t>(20 + 200 * x / width),
          static_cast<std::uint8_t>(30 + 180 * y / height),
          static_cast<std::uint8_t>(230 - 100 * (x + 2 * y) / (width + 2 * height))};
    }
  }
  return image;
}

FileBytes with_exif(const FileBytes& jpeg, int orientation, bool big_endian) {
  const auto value = static_cast<std::uint8_t>(orientation);
  FileBytes block = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i', 'f', 0, 0};  // APP1 of 34 bytes
  const FileBytes little = {'I', 'I', 42, 0, 8, 0,     0, 0, 1, 0, 0x12, 0x01, 3,
                            0,   1,   0,  0, 0, value, 0, 0, 0, 0, 0,    0,    0};
  const FileBytes big = {'M', 'M', 0, 42, 0, 0, 0,     8, 0, 1, 0x01, 0x12, 0,
                         3,   0,   0, 0,  1, 0, value, 0, 0, 0, 0,    0,    0};
  const FileBytes& tiff = big_endian ? big : little;
  std::copy(tiff.begin(), tiff.end(), std::back_inserter(block));
  FileBytes out;
  out.reserve(jpeg.size() + block.size());
  for (const FileBytes& part : {FileBytes(jpeg.begin(), jpeg.begin() + 2), block,
                                FileBytes(jpeg.begin() + 2, jpeg.end())}) {
    std::copy(part.begin(), part.end(), std::back_inserter(out));
  }
  return out;
}

FileBytes cmyk_jpeg(const cv::Mat& inks, bool adobe, bool ycck) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int)
  jpeg_mem_dest(&jpeg, &buffer, &size);
  jpeg.image_width = static_cast<JDIMENSION>(inks.cols);
  jpeg.image_height = static_cast<JDIMENSION>(inks.rows);
  jpeg.input_components = 4;
  jpeg.in_color_space = JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_colorspace(&jpeg, ycck ? JCS_YCCK : JCS_CMYK);
  jpeg.write_Adobe_marker = adobe ? TRUE : FALSE;
  jpeg_set_quality(&jpeg, 100, TRUE);
  for (int c = 0; c < 4; ++c) jpeg.comp_info[c].h_samp_factor = jpeg.comp_info[c].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  for (int y = 0; y < inks.rows; ++y) {
    cv::Mat row = inks.row(y).clone();
    if (adobe) row = cv::Scalar::all(255) - row;
    JSAMPROW data = row.data;
    jpeg_write_scanlines(&jpeg, &data, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  FileBytes out(buffer, buffer + size);
  std::free(buffer);
  return out;
}

FileBytes make_png(const PngSpec& spec) {
  FileBytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep bytes, png_size_t count) {
        auto& file = *static_cast<FileBytes*>(png_get_io_ptr(p));
        file.insert(file.end(), bytes, bytes + count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(spec.width),
               static_cast<png_uint_32>(spec.height), spec.bit_depth, spec.color_type,
               spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (!spec.palette.empty()) {
    png_set_PLTE(png, info, reinterpret_cast<png_const_colorp>(spec.palette.data()),
                 static_cast<int>(spec.palette.size() / 3));
  }
  if (!spec.transparency.empty()) {
    png_set_tRNS(png, info, spec.transparency.data(), static_cast<int>(spec.transparency.size()),
                 nullptr);
  }
  if (spec.orientation != 1) {
    FileBytes exif = {'M',  'M',  0, 42, 0, 0, 0, 8, 0, 1,
                      0x01, 0x12, 0, 3,  0, 0, 0, 1, 0, static_cast<std::uint8_t>(spec.orientation),
                      0,    0,    0, 0,  0, 0};
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()), exif.data());
  }
  png_write_info(png, info);
  std::vector<std::vector<std::uint8_t>> rows = spec.rows;
  std::vector<png_bytep> pointers;
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

FileBytes make_bmp(const cv::Mat& rgb) {
  const int stride = (rgb.cols * 3 + 3) / 4 * 4;
  FileBytes out(54 + static_cast<std::size_t>(stride) * static_cast<std::size_t>(rgb.rows), 0);
  const auto put32 = [&](std::size_t at, std::size_t value) {
    for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
  };
  out[0] = 'B';
  out[1] = 'M';
  put32(2, out.size());
  put32(10, 54);
  put32(14, 40);
  put32(18, static_cast<std::size_t>(rgb.cols));
  put32(22, static_cast<std::size_t>(rgb.rows));
  out[26] = 1;
  out[28] = 24;
  for (int y = 0; y < rgb.rows; ++y) {  // bottom-up, BGR
    std::uint8_t* row = out.data() + 54 + static_cast<std::ptrdiff_t>(stride) * (rgb.rows - 1 - y);
    for (int x = 0; x < rgb.cols; ++x) {
      for (int c = 0; c < 3; ++c) row[3 * x + c] = rgb.at<cv::Vec3b>(y, x)[2 - c];
    }
  }
  return out;
}

FileBytes make_webp(const cv::Mat& image) {
  std::uint8_t* bytes = nullptr;
  const auto encode = image.channels() == 4 ? WebPEncodeLosslessRGBA : WebPEncodeLosslessRGB;
  const std::size_t size =
      encode(image.data, image.cols, image.rows, static_cast<int>(image.step), &bytes);
  FileBytes out(bytes, bytes + size);
  WebPFree(bytes);
  return out;
}

void write_bytes(const std::filesystem::path& path, const FileBytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file) throw core::Error("cannot write", path.native());
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  write_bytes(path, FileBytes(text.begin(), text.end()));
}

double max_difference(const cv::Mat& a, const cv::Mat& b) {
  if (a.size() != b.size() || a.type() != b.type()) return 1000;
  return cv::norm(a, b, cv::NORM_INF);
}

double mean_difference(const cv::Mat& a, const cv::Mat& b) {
  if (a.size() != b.size() || a.type() != b.type()) return 1000;
  return cv::norm(a, b, cv::NORM_L1) / static_cast<double>(a.total() * 3);
}

}  // namespace sgtrain::support
