#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <opencv2/core.hpp>
#include <set>

#include "core/error.h"
#include "core/node.h"
#include "core/process.h"
#include "image/image.h"
#include "loggers/event_file.h"
#include "loggers/logger.h"
#include "support/temp_dir.h"

using namespace sgtrain;

namespace {

// One field of a protobuf message, as any decoder reads it.
struct Field {
  std::uint64_t number = 0;  // varint and fixed types
  std::string bytes;
};
using Message = std::multimap<int, Field>;

Message decode(std::string_view data) {
  Message out;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < data.size()) {
    const std::uint64_t key = varint();
    Field field;
    const int type = static_cast<int>(key & 7);
    if (type == 0) field.number = varint();
    if (type == 1 || type == 5) {
      const std::size_t size = type == 1 ? 8 : 4;
      REQUIRE(at + size <= data.size());
      std::memcpy(&field.number, data.data() + at, size);
      at += size;
    }
    if (type == 2) {
      const std::uint64_t size = varint();
      REQUIRE(at + size <= data.size());
      field.bytes = data.substr(at, size);
      at += size;
    }
    out.emplace(static_cast<int>(key >> 3), field);
  }
  return out;
}

const Field& one(const Message& message, int field) {
  REQUIRE(message.count(field) == 1);
  return message.find(field)->second;
}

// Records with both checksums verified.
std::vector<Message> read_events(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<Message> out;
  for (std::size_t at = 0; at < text.size();) {
    REQUIRE(at + 12 <= text.size());
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    std::memcpy(&size, text.data() + at, 8);
    std::memcpy(&crc, text.data() + at + 8, 4);
    CHECK(crc == loggers::masked_crc32c(text.substr(at, 8)));
    REQUIRE(at + 16 + size <= text.size());
    const std::string payload = text.substr(at + 12, size);
    std::memcpy(&crc, text.data() + at + 12 + size, 4);
    CHECK(crc == loggers::masked_crc32c(payload));
    out.push_back(decode(payload));
    at += 16 + size;
  }
  return out;
}

std::filesystem::path only_file(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(folder), {});
  REQUIRE(files.size() == 1);
  return files[0];
}

std::unique_ptr<loggers::Logger> make(const std::string& name, const loggers::RunInfo& run,
                                      bool monitor_system = false) {
  auto params = core::Tree::make_map();
  params->set("monitor_system", core::Tree::of(monitor_system));
  return loggers::Logger::registry().parse(
      {name, core::Node(params, std::make_shared<core::Problems>())})(run);
}

}  // namespace

TEST_CASE("crc32c has the published check values") {
  CHECK(loggers::crc32c("123456789") == 0xE3069283U);
  CHECK(loggers::crc32c(std::string(32, '\0')) == 0x8A9136AAU);  // RFC 3720, B.4
  CHECK(loggers::crc32c(std::string(32, '\xff')) == 0x62A8AB43U);
}

TEST_CASE("tags as SuperGradients writes them") {
  CHECK(loggers::normalize_tag("Train_PPYoloELoss/loss cls") == "train_ppyoloeloss/loss_cls");
  CHECK(loggers::normalize_tag("Valid_mAP@0.50") == "valid_map@0.50");
}

TEST_CASE("event files hold scalars, text and images") {
  const support::TempDir dir;
  std::vector<std::unique_ptr<loggers::Logger>> list;
  list.push_back(make("base_sg_logger", {.run_dir = dir.path()}));
  auto logger = loggers::make_async(std::move(list));
  logger->add_scalars({{"Train_Loss", 0.5}, {"LR", 1e-3}}, 0);
  logger->add_scalar("Train_Loss", 0.25, 1);
  logger->add_config("hyper params", "lr: 0.1\n");
  cv::Mat image(5, 7, CV_8UC3, cv::Scalar(10, 20, 30));
  logger->add_image("Train images", image, 2);
  image.setTo(0);  // the logger has its own copy
  logger->close();

  const auto file = only_file(dir.path());
  CHECK(file.filename().string().starts_with("events.out.tfevents."));
  const auto events = read_events(file);
  REQUIRE(events.size() == 5);
  CHECK(one(events[0], 3).bytes == "brain.Event:2");

  const Message scalars = decode(one(events[1], 5).bytes);
  REQUIRE(scalars.count(1) == 2);
  const Message loss = decode(scalars.find(1)->second.bytes);
  CHECK(one(loss, 1).bytes == "train_loss");
  CHECK(std::bit_cast<float>(static_cast<std::uint32_t>(one(loss, 2).number)) == 0.5F);
  CHECK(one(events[2], 2).number == 1);
  const double wall = std::bit_cast<double>(one(events[2], 1).number);
  CHECK(std::abs(wall - static_cast<double>(time(nullptr))) < 60);

  const Message text = decode(one(decode(one(events[3], 5).bytes), 1).bytes);
  CHECK(one(text, 1).bytes == "hyper_params/text_summary");
  CHECK(one(decode(one(text, 8).bytes), 8).bytes == "```yaml\nlr: 0.1\n\n```");
  CHECK(one(decode(one(decode(one(text, 9).bytes), 1).bytes), 1).bytes == "text");

  const Message picture =
      decode(one(decode(one(decode(one(events[4], 5).bytes), 1).bytes), 4).bytes);
  CHECK(one(picture, 1).number == 5);
  CHECK(one(picture, 2).number == 7);
  const std::string& png = one(picture, 4).bytes;
  const auto decoded = image::decode(
      {reinterpret_cast<const std::uint8_t*>(png.data()), png.size()}, "logged image");
  CHECK(decoded.image.at<cv::Vec3b>(4, 6) == cv::Vec3b(10, 20, 30));
}

TEST_CASE("a resumed run starts a new file that cuts the old steps") {
  const support::TempDir dir;
  make("base_sg_logger", {.run_dir = dir.path(), .resumed = true, .resume_step = 6})->close();
  const auto events = read_events(only_file(dir.path()));
  REQUIRE(events.size() == 2);
  CHECK(one(events[1], 2).number == 6);
  CHECK(one(decode(one(events[1], 7).bytes), 1).number == 1);
}

TEST_CASE("the system monitor writes into the event file, once at the end at least") {
  const support::TempDir dir;
  const auto logger = make("base_sg_logger", {.run_dir = dir.path()}, /*monitor_system=*/true);
  logger->add_scalar("loss", 0.5, 3);
  logger->close();
  std::set<std::string> tags;
  for (const auto& event : read_events(only_file(dir.path()))) {
    if (event.count(5) == 0) continue;
    const Message summary = decode(one(event, 5).bytes);
    for (auto [value, end] = summary.equal_range(1); value != end; ++value)
      tags.insert(one(decode(value->second.bytes), 1).bytes);
  }
  for (const char* tag : {"loss", "System/memory.usage_percent", "System/disk.usage_percent",
                          "System/disk.io_write_mbs", "System/network.network_recv_mbs"}) {
    INFO(tag);
    CHECK(tags.count(tag) == 1);
  }
}

TEST_CASE("only local storage") {
  auto tree = core::Tree::make_map();
  tree->set("storage_location", core::Tree::of("s3://bucket"));
  const auto problems = std::make_shared<core::Problems>();
  loggers::Logger::registry().parse({"base_sg_logger", core::Node(tree, problems)});
  CHECK_FALSE(problems->empty());
}

// tests/peer/tensorboard_events.py runs this and reads the result with TensorBoard itself.
TEST_CASE("write events for the peer", "[.]") {
  const std::filesystem::path folder = core::environment("SGTRAIN_TEST_DIR");
  REQUIRE_FALSE(folder.empty());
  cv::Mat image(24, 32, CV_8UC3, cv::Scalar(200, 100, 50));
  const auto write = [&](const loggers::RunInfo& run, int first, int last, double offset) {
    std::vector<std::unique_ptr<loggers::Logger>> list;
    list.push_back(make("base_sg_logger", run));
    const auto logger = loggers::make_async(std::move(list));
    logger->add_config("hyper_params", "lr: 0.1\n");
    for (int step = first; step < last; ++step) {
      logger->add_scalars({{"Train_PPYoloELoss/loss cls", offset + step}, {"LR/default", 1e-3}},
                          step);
    }
    logger->add_text("Averaged_Model_Performance", "**mAP** 0.5", last);
    logger->add_image("train images", image, last);
    logger->close();
  };
  write({.run_dir = folder}, 0, 10, 0);
  write({.run_dir = folder, .resumed = true, .resume_step = 5}, 5, 8, 100);
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 2);
}
