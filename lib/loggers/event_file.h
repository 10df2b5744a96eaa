// TensorBoard event files: TFRecord framing around tensorflow.Event messages
// (tensorflow/core/util/event.proto, tensorflow/core/lib/io/record_writer.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "loggers/proto.h"

namespace sgtrain::loggers {

/// CRC-32C (Castagnoli), as in RFC 3720; crc32c("123456789") is 0xE3069283.
std::uint32_t crc32c(std::string_view data);
/// TFRecord's masking: rotated right by 15 bits, plus 0xA282EAD8.
std::uint32_t masked_crc32c(std::string_view data);

/// One new file, never an old one continued: a torn last record would hide what follows it.
class EventFile {
 public:
  /// Creates events.out.tfevents.<seconds>.<host>.<pid>.<n>. With `restart_step` the reader drops
  /// older events from this step on (a resumed run). Throws core::Error.
  EventFile(const std::filesystem::path& folder, std::optional<std::int64_t> restart_step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Appends an Event with the current time and a Summary of these values (field 1 of Summary,
  /// repeated). One write per record. Throws core::Error (disk full).
  void add_summary(std::int64_t step, const ProtoWriter& summary);
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  void add_event(const ProtoWriter& event);
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace sgtrain::loggers
