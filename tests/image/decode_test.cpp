// Every kind of file becomes upright 8-bit RGB (cases B1, B4, B5, B6, B7).
#include <catch2/catch.hpp>
#include <filesystem>
#include <opencv2/imgproc.hpp>

#include "core/error.h"
#include "image/image.h"
#include "support/image_files.h"
#include "support/temp_dir.h"

namespace sgtrain::image {
namespace {

using support::FileBytes;
using support::gradient_image;
using support::max_difference;
using support::mean_difference;

/// What the eight EXIF orientations say about a stored picture, written as index arithmetic.
cv::Mat turned(const cv::Mat& stored, int orientation) {
  const int w = stored.cols, h = stored.rows;
  cv::Mat out(orientation >= 5 ? cv::Size(h, w) : cv::Size(w, h), CV_8UC3);
  for (int y = 0; y < out.rows; ++y) {
    for (int x = 0; x < out.cols; ++x) {
      int sx = x, sy = y;
      switch (orientation) {
        case 2:
          sx = w - 1 - x;
          break;
        case 3:
          sx = w - 1 - x, sy = h - 1 - y;
          break;
        case 4:
          sy = h - 1 - y;
          break;
        case 5:
          sx = y, sy = x;
          break;
        case 6:
          sx = y, sy = h - 1 - x;
          break;
        case 7:
          sx = w - 1 - y, sy = h - 1 - x;
          break;
        case 8:
          sx = w - 1 - y, sy = x;
          break;
        default:
          break;
      }
      out.at<cv::Vec3b>(y, x) = stored.at<cv::Vec3b>(sy, sx);
    }
  }
  return out;
}

std::string error_of(const FileBytes& bytes, const DecodeOptions& options = {}) {
  try {
    decode(bytes, "photo.jpg", options);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("JPEG comes out as RGB of the right size") {
  const cv::Mat image = gradient_image(97, 61);
  const Decoded out = decode(encode_jpeg(image, 95), "a.jpg");
  CHECK(out.full_size == cv::Size(97, 61));
  CHECK(out.warning.empty());
  CHECK(mean_difference(out.image, image) < 2.0);
}

TEST_CASE("gray JPEG becomes three equal channels") {
  cv::Mat gray;
  cv::cvtColor(gradient_image(40, 30), gray, cv::COLOR_RGB2GRAY);
  const cv::Mat out = decode(encode_jpeg(gray, 100), "gray.jpg").image;
  REQUIRE(out.type() == CV_8UC3);
  cv::Mat twin;
  cv::cvtColor(gray, twin, cv::COLOR_GRAY2RGB);
  CHECK(max_difference(out, twin) <= 2);
}

TEST_CASE("all eight EXIF orientations, both byte orders, on request ignored") {
  const FileBytes jpeg = encode_jpeg(gradient_image(64, 40), 98);
  const cv::Mat stored = decode(jpeg, "plain.jpg").image;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool big_endian : {false, true}) {
      CAPTURE(orientation, big_endian);
      const FileBytes file = support::with_exif(jpeg, orientation, big_endian);
      CHECK(max_difference(decode(file, "exif.jpg").image, turned(stored, orientation)) == 0);
      CHECK(decode(file, "exif.jpg").full_size == turned(stored, orientation).size());
      CHECK(max_difference(decode(file, "exif.jpg", {.honor_exif = false}).image, stored) == 0);
      const Info info = probe(file, "exif.jpg");
      CHECK(info.orientation == orientation);
      CHECK(info.stored == stored.size());
      CHECK(info.upright() == turned(stored, orientation).size());
    }
  }
}

TEST_CASE("EXIF blocks that are damaged count as upright") {
  const FileBytes jpeg = encode_jpeg(gradient_image(16, 12), 90);
  CHECK(probe(support::with_exif(jpeg, 9), "x").orientation == 1);
  CHECK(probe(support::with_exif(jpeg, 0), "x").orientation == 1);
  FileBytes far = support::with_exif(jpeg, 6);
  far[16] = 0xFF;  // offset of the directory beyond the block
  far[17] = 0xFF;
  CHECK(probe(far, "x").orientation == 1);
  CHECK(decode(far, "x").image.size() == cv::Size(16, 12));
}

TEST_CASE("PNG and WebP with EXIF orientation are turned upright") {
  const cv::Mat image = gradient_image(30, 20);
  support::PngSpec spec{.width = 30, .height = 20, .color_type = 2, .orientation = 6};
  for (int y = 0; y < 20; ++y) spec.rows.emplace_back(image.ptr(y), image.ptr(y) + 90);
  CHECK(max_difference(decode(support::make_png(spec), "a.png").image, turned(image, 6)) == 0);
}

TEST_CASE("PNG round trip is exact; compression does not change pixels") {
  const cv::Mat image = gradient_image(53, 37);
  for (const int compression : {0, 3, 9}) {
    CHECK(max_difference(decode(encode_png(image, compression), "a.png").image, image) == 0);
  }
}

TEST_CASE("16-bit PNG is divided by 257, not clipped") {
  cv::Mat gray(1, 256, CV_16UC1), color(1, 256, CV_16UC3);
  for (int x = 0; x < 256; ++x) {
    gray.at<std::uint16_t>(0, x) = static_cast<std::uint16_t>(x * 257);
    color.at<cv::Vec3w>(0, x) = {static_cast<std::uint16_t>(x * 257),
                                 static_cast<std::uint16_t>(65535 - x * 257), 300};
  }
  const cv::Mat from_gray = decode(encode_png(gray), "g16.png").image;
  const cv::Mat from_color = decode(encode_png(color), "c16.png").image;
  for (int x = 0; x < 256; ++x) {
    const auto value = static_cast<std::uint8_t>(x);
    CHECK(from_gray.at<cv::Vec3b>(0, x) == cv::Vec3b(value, value, value));
    CHECK(from_color.at<cv::Vec3b>(0, x) ==
          cv::Vec3b(value, static_cast<std::uint8_t>(255 - x), 1));
  }
}

TEST_CASE("1-bit, gray with alpha and palette PNG") {
  SECTION("1-bit is black and white") {
    const auto file =
        support::make_png({.width = 8, .height = 1, .bit_depth = 1, .rows = {{0xA5}}});
    const cv::Mat out = decode(file, "bits.png").image;
    const int bits[8] = {1, 0, 1, 0, 0, 1, 0, 1};
    for (int x = 0; x < 8; ++x) CHECK(out.at<cv::Vec3b>(0, x) == cv::Vec3b::all(bits[x] ? 255 : 0));
  }
  SECTION("gray + alpha") {
    const auto file = support::make_png(
        {.width = 2, .height = 1, .color_type = 4, .rows = {{200, 255, 200, 128}}});
    const cv::Mat over = decode(file, "ga.png").image;
    CHECK(over.at<cv::Vec3b>(0, 0) == cv::Vec3b::all(200));
    CHECK(over.at<cv::Vec3b>(0, 1) == cv::Vec3b::all(100));
    const cv::Mat dropped = decode(file, "ga.png", {.alpha = Alpha::kDrop}).image;
    CHECK(dropped.at<cv::Vec3b>(0, 1) == cv::Vec3b::all(200));
  }
  SECTION("palette with transparency") {
    const auto file = support::make_png({.width = 3,
                                         .height = 1,
                                         .color_type = 3,
                                         .palette = {255, 0, 0, 0, 255, 0, 10, 20, 30},
                                         .transparency = {255, 0},
                                         .rows = {{0, 1, 2}}});
    const cv::Mat out = decode(file, "p.png").image;
    CHECK(out.at<cv::Vec3b>(0, 0) == cv::Vec3b(255, 0, 0));
    CHECK(out.at<cv::Vec3b>(0, 1) == cv::Vec3b(0, 0, 0));
    CHECK(out.at<cv::Vec3b>(0, 2) == cv::Vec3b(10, 20, 30));
    CHECK(decode(file, "p.png", {.alpha = Alpha::kDrop}).image.at<cv::Vec3b>(0, 1) ==
          cv::Vec3b(0, 255, 0));
  }
  SECTION("interlaced") {
    const cv::Mat image = gradient_image(19, 11);
    support::PngSpec spec{.width = 19, .height = 11, .color_type = 2, .interlaced = true};
    for (int y = 0; y < 11; ++y) spec.rows.emplace_back(image.ptr(y), image.ptr(y) + 57);
    CHECK(max_difference(decode(support::make_png(spec), "i.png").image, image) == 0);
  }
}

TEST_CASE("RGBA over black equals the RGB twin where opaque") {
  const cv::Mat image = gradient_image(32, 32);
  cv::Mat rgba;
  cv::cvtColor(image, rgba, cv::COLOR_RGB2RGBA);
  CHECK(max_difference(decode(encode_png(rgba), "a.png").image, image) == 0);
  CHECK(max_difference(decode(support::make_webp(rgba), "a.webp").image, image) == 0);
}

TEST_CASE("WebP: lossless is exact, alpha as in PNG, size from the header") {
  const cv::Mat image = gradient_image(45, 33);
  const FileBytes file = support::make_webp(image);
  CHECK(max_difference(decode(file, "a.webp").image, image) == 0);
  CHECK(probe(file, "a.webp").stored == cv::Size(45, 33));
  cv::Mat rgba(1, 1, CV_8UC4, cv::Scalar(100, 200, 50, 51));
  CHECK(decode(support::make_webp(rgba), "b.webp").image.at<cv::Vec3b>(0, 0) ==
        cv::Vec3b(20, 40, 10));
}

TEST_CASE("CMYK and YCCK JPEG match their RGB twin, Adobe's inversion included") {
  // Ink amounts of an RGB gradient without black generation, and one black column.
  const cv::Mat rgb = gradient_image(48, 32);
  cv::Mat inks(rgb.size(), CV_8UC4);
  cv::Mat twin = rgb.clone();
  for (int y = 0; y < rgb.rows; ++y) {
    for (int x = 0; x < rgb.cols; ++x) {
      const auto p = rgb.at<cv::Vec3b>(y, x);
      const std::uint8_t black = x < 8 ? 255 : 0;
      inks.at<cv::Vec4b>(y, x) = {static_cast<std::uint8_t>(255 - p[0]),
                                  static_cast<std::uint8_t>(255 - p[1]),
                                  static_cast<std::uint8_t>(255 - p[2]), black};
      if (black != 0) twin.at<cv::Vec3b>(y, x) = {0, 0, 0};
    }
  }
  for (const bool adobe : {true, false}) {
    CAPTURE(adobe);
    CHECK(max_difference(decode(support::cmyk_jpeg(inks, adobe, false), "cmyk.jpg").image, twin) <=
          3);
  }
  CHECK(max_difference(decode(support::cmyk_jpeg(inks, true, true), "ycck.jpg").image, twin) <= 4);
}

TEST_CASE("other formats go through the module") {
  const cv::Mat image = gradient_image(21, 13);
  CHECK(max_difference(decode(support::make_bmp(image), "a.bmp").image, image) == 0);
  CHECK(probe(support::make_bmp(image), "a.bmp").stored == cv::Size(21, 13));
  const support::TempDir dir;
  write_file(dir.path() / "a.tif", image);
  CHECK(max_difference(decode_file(dir.path() / "a.tif").image, image) == 0);
  CHECK(probe_file(dir.path() / "a.tif").stored == cv::Size(21, 13));
  cv::Mat wide;
  image.convertTo(wide, CV_16U, 257.0);
  write_file(dir.path() / "b.tif", wide);
  CHECK(max_difference(decode_file(dir.path() / "b.tif").image, image) == 0);
  const std::string pnm = "P6 # comment\n2 1\n255\n\x01\x02\x03\x0a\x14\x1e";
  const FileBytes bytes(pnm.begin(), pnm.end());
  CHECK(decode(bytes, "a.ppm").image.at<cv::Vec3b>(0, 1) == cv::Vec3b(10, 20, 30));
}

TEST_CASE("reduced JPEG decoding keeps at least the size asked for") {
  const cv::Mat image = gradient_image(640, 480);
  const FileBytes file = encode_jpeg(image, 95);
  struct Row {
    int min_width, min_height, width;
  };
  for (const Row row : {Row{320, 240, 320}, Row{321, 1, 640}, Row{160, 120, 160}, Row{80, 60, 80},
                        Row{1, 1, 80}, Row{0, 0, 640}, Row{161, 60, 320}}) {
    CAPTURE(row.min_width, row.min_height);
    const Decoded out =
        decode(file, "a.jpg", {.min_width = row.min_width, .min_height = row.min_height});
    CHECK(out.image.cols == row.width);
    CHECK(out.full_size == cv::Size(640, 480));
    cv::Mat twin;
    cv::resize(image, twin, out.image.size(), 0, 0, cv::INTER_AREA);
    CHECK(mean_difference(out.image, twin) < 2.0);
  }
  // Sides asked for are upright ones.
  const FileBytes turned_file = support::with_exif(file, 6);
  CHECK(decode(turned_file, "b.jpg", {.min_width = 240, .min_height = 320}).image.size() ==
        cv::Size(240, 320));
  CHECK(decode(turned_file, "b.jpg", {.min_width = 320, .min_height = 240}).image.size() ==
        cv::Size(480, 640));
}

TEST_CASE("damaged JPEG: what is there is decoded, with a warning that names the file") {
  const cv::Mat image = gradient_image(320, 240);
  const FileBytes whole = encode_jpeg(image, 90);
  const cv::Mat clean = decode(whole, "a.jpg").image;
  SECTION("half a file") {
    const FileBytes half(whole.begin(),
                         whole.begin() + static_cast<std::ptrdiff_t>(whole.size() / 2));
    const Decoded out = decode(half, "half.jpg");
    CHECK_THAT(out.warning, Catch::Contains("half.jpg"));
    const cv::Rect top(0, 0, 320, 80);
    CHECK(max_difference(out.image(top), clean(top)) == 0);
    CHECK_THAT(error_of(half, {.allow_truncated = false}), Catch::Contains("photo.jpg"));
  }
  SECTION("end marker missing") {
    const FileBytes cut(whole.begin(), whole.end() - 2);
    CHECK(max_difference(decode(cut, "cut.jpg").image, clean) == 0);
  }
  SECTION("junk behind the end") {
    FileBytes more = whole;
    for (int i = 0; i < 1024; ++i) more.push_back(static_cast<std::uint8_t>(i * 7));
    const Decoded out = decode(more, "junk.jpg");
    CHECK(max_difference(out.image, clean) == 0);
    CHECK(out.warning.empty());
  }
  SECTION("nothing to decode is an error with the name") {
    CHECK_THAT(error_of({}), Catch::Contains("photo.jpg") && Catch::Contains("empty"));
    const std::string text = "this is a text file\n";
    CHECK_THAT(error_of(FileBytes(text.begin(), text.end())), Catch::Contains("not a picture"));
    CHECK_THAT(error_of(FileBytes(whole.begin(), whole.begin() + 40)),
               Catch::Contains("photo.jpg"));
  }
}

TEST_CASE("every cut of a small file is an error or a picture, never a crash") {
  const cv::Mat image = gradient_image(24, 16);
  const std::vector<FileBytes> files = {encode_jpeg(image, 80), encode_png(image),
                                        support::make_webp(image),
                                        support::with_exif(encode_jpeg(image, 80), 6)};
  int decoded = 0;
  for (const FileBytes& file : files) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      try {
        const FileBytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
        const Decoded out = decode(cut, "cut");
        CHECK(out.image.type() == CV_8UC3);
        ++decoded;
      } catch (const core::Error&) {
      }
    }
  }
  CHECK(decoded > 0);
}

TEST_CASE("flipped bytes never crash") {
  const cv::Mat image = gradient_image(24, 16);
  for (const FileBytes& file :
       {encode_jpeg(image, 80), encode_png(image), support::make_webp(image)}) {
    for (std::size_t at = 2; at < file.size(); ++at) {
      FileBytes bad = file;
      bad[at] ^= 0xFF;
      try {
        const Decoded out = decode(bad, "bad", {.max_pixels = 1'000'000});
        CHECK(out.image.type() == CV_8UC3);
      } catch (const core::Error& error) {
        CHECK_THAT(error.what(), Catch::Contains("bad"));
      }
    }
  }
}

TEST_CASE("a header that claims too many pixels is refused before any allocation") {
  FileBytes png = encode_png(gradient_image(4, 4));
  for (const std::size_t at : {16U, 20U}) {
    png[at] = 0x00;
    png[at + 1] = 0x10;  // 1,048,576 + 4
  }
  CHECK_THAT(error_of(png), Catch::Contains("1048580 x 1048580 pixels"));
  CHECK_THAT(error_of(encode_jpeg(gradient_image(64, 64)), {.max_pixels = 1000}),
             Catch::Contains("64 x 64 pixels"));
}

TEST_CASE("names of any bytes are passed through") {
  const support::TempDir dir;
  const cv::Mat image = gradient_image(12, 10);
  const std::vector<std::string> names = {"\xEC\xA7\x80\xEB\x8B\xA8.png",  // Korean
                                          "\xE4\xB8\xAD\xE6\x96\x87.png",  // Chinese
                                          "\xC3\xA9t\xC3\xA9/a.png",       // NFC
                                          "e\xCC\x81te\xCC\x81/a.png",     // NFD
                                          "\xF0\x9F\x98\x80.png",          // emoji
                                          "a b#c%20d.png",
                                          "line\nbreak.png",
                                          "latin1 \xE9.png"};
  for (const std::string& name : names) {
    CAPTURE(name);
    write_file(dir.path() / name, image);
    CHECK(max_difference(decode_file(dir.path() / name).image, image) == 0);
    CHECK(probe_file(dir.path() / name).stored == image.size());
  }
}

TEST_CASE("files that cannot be read are named") {
  const support::TempDir dir;
  CHECK_THROWS_WITH(decode_file(dir.path() / "absent.jpg"), Catch::Contains("absent.jpg"));
  CHECK_THROWS_WITH(decode_file(dir.path()), Catch::Contains("not a regular file"));
  support::write_bytes(dir.path() / "large.bin", FileBytes(100));
  CHECK_THROWS_WITH(read_file(dir.path() / "large.bin", 99), Catch::Contains("larger than 99"));
  CHECK_THROWS_WITH(write_file(dir.path() / "a.nosuchformat", gradient_image(4, 4)),
                    Catch::Contains(".nosuchformat"));
}

TEST_CASE("suffixes of images in any case") {
  CHECK(has_image_suffix("a.b.JPG"));
  CHECK(has_image_suffix("a.tiff"));
  CHECK_FALSE(has_image_suffix("a.txt"));
  CHECK_FALSE(has_image_suffix("jpg"));
}

TEST_CASE("16 photos of all orientations look alike", "[data]") {
  const std::filesystem::path folder = std::filesystem::path(SGTRAIN_SHARED_DIR) / "data/exif";
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: " << folder << " is not there");
    return;
  }
  for (const std::string kind : {"Landscape", "Portrait"}) {
    const cv::Mat reference = decode_file(folder / (kind + "_1.jpg")).image;
    for (int i = 0; i <= 8; ++i) {
      const auto file = folder / (kind + "_" + std::to_string(i) + ".jpg");
      CAPTURE(file);
      const cv::Mat image = decode_file(file).image;
      CHECK(mean_difference(image, reference) < 6.0);
      CHECK(probe_file(file).orientation == std::max(i, 1));
      if (i > 1) {
        const cv::Mat stored = decode_file(file, {.honor_exif = false}).image;
        CHECK(mean_difference(stored, reference) > 20.0);
      }
    }
  }
}

}  // namespace
}  // namespace sgtrain::image
