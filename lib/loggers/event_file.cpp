#include "loggers/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>

#include "core/error.h"
#include "core/process.h"

namespace sgtrain::loggers {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

double seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void append_le(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// Fields of tensorflow.Event.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr int kSessionStatus = 1, kSessionStart = 1;

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = ~0U;
  for (const char c : data) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view data) {
  return std::rotr(crc32c(data), 15) + 0xA282EAD8U;
}

EventFile::EventFile(const std::filesystem::path& folder,
                     std::optional<std::int64_t> restart_step) {
  static std::atomic<int> number{0};
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                               static_cast<std::int64_t>(seconds_now()), core::host_name(),
                               getpid(), number++);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    throw core::Error("cannot create the event file: " + std::string(std::strerror(errno)),
                      path_.string());
  }
  add_event(ProtoWriter().real(kWallTime, seconds_now()).bytes(kFileVersion, "brain.Event:2"));
  if (restart_step) {
    add_event(ProtoWriter()
                  .real(kWallTime, seconds_now())
                  .varint(kStep, static_cast<std::uint64_t>(*restart_step))
                  .message(kSessionLog, ProtoWriter().varint(kSessionStatus, kSessionStart)));
  }
}

EventFile::~EventFile() {
  if (fd_ >= 0) ::close(fd_);
}

void EventFile::add_summary(std::int64_t step, const ProtoWriter& summary) {
  add_event(ProtoWriter()
                .real(kWallTime, seconds_now())
                .varint(kStep, static_cast<std::uint64_t>(step))
                .message(kSummary, summary));
}

void EventFile::add_event(const ProtoWriter& event) {
  const std::string& payload = event.str();
  std::string record;
  record.reserve(payload.size() + 16);
  append_le(record, payload.size(), 8);
  append_le(record, masked_crc32c(record), 4);
  record += payload;
  append_le(record, masked_crc32c(payload), 4);
  std::string_view rest = record;
  const off_t start = ::lseek(fd_, 0, SEEK_END);
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int reason = errno;
      // A torn record would hide all later ones from readers: take it back.
      [[maybe_unused]] const int cut = ::ftruncate(fd_, start);
      throw core::Error("cannot write: " + std::string(std::strerror(reason)), path_.string());
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void EventFile::sync() {
  ::fdatasync(fd_);
}

}  // namespace sgtrain::loggers
