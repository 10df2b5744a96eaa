#include "tensor/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace sgtrain::tensor {
namespace {

constexpr std::uint32_t kLocal = 0x04034b50;
constexpr std::uint32_t kCentral = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kEnd64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr std::size_t kMaxComment = 65535;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint16_t kPaddingExtra = 0x4246;  // "FB", as torch pads
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint32_t kFull32 = 0xFFFFFFFFu;
constexpr std::uint16_t kFull16 = 0xFFFFu;
constexpr std::uint16_t kUtf8Flag = 1u << 11;
constexpr std::uint16_t kFirstDay = 0x21;  // 1 January 1980: the same content gives the same file

template <class T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// crc32 takes 32-bit lengths.
std::uint32_t checksum(const void* data, std::uint64_t size) {
  constexpr std::uint64_t kPiece = 1u << 30;
  const auto* bytes = static_cast<const Bytef*>(data);
  uLong crc = crc32(0, nullptr, 0);
  for (std::uint64_t at = 0; at < size; at += kPiece) {
    crc = crc32(crc, bytes + at, static_cast<uInt>(std::min(kPiece, size - at)));
  }
  return static_cast<std::uint32_t>(crc);
}

}  // namespace

bool ZipReader::looks_like_zip(std::span<const std::byte> file) {
  return file.size() >= 4 &&
         (get<std::uint32_t>(file, 0) == kLocal || get<std::uint32_t>(file, 0) == kEnd);
}

ZipReader::ZipReader(std::span<const std::byte> file, std::string where)
    : file_(file), where_(std::move(where)) {
  read_entries(find_directory());
}

void ZipReader::fail(std::string_view text) const {
  throw core::InputError(fmt::format("cannot read the zip archive: {}", text), where_,
                         "the file is damaged or incomplete: copy or download it again, or use an "
                         "earlier checkpoint");
}

ZipReader::Directory ZipReader::find_directory() const {
  if (file_.size() < kEndBytes) fail("it is too short");
  const std::size_t last = file_.size() - kEndBytes;
  const std::size_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (get<std::uint32_t>(file_, at) != kEnd) continue;
    if (at + kEndBytes + get<std::uint16_t>(file_, at + 20) != file_.size()) continue;
    Directory directory{.offset = get<std::uint32_t>(file_, at + 16),
                        .size = get<std::uint32_t>(file_, at + 12),
                        .count = get<std::uint16_t>(file_, at + 10)};
    const bool large =
        directory.offset == kFull32 || directory.size == kFull32 || directory.count == kFull16;
    if (large && at >= kLocator64Bytes &&
        get<std::uint32_t>(file_, at - kLocator64Bytes) == kLocator64) {
      const auto end64 = get<std::uint64_t>(file_, at - kLocator64Bytes + 8);
      if (end64 > file_.size() || file_.size() - end64 < kEnd64Bytes ||
          get<std::uint32_t>(file_, end64) != kEnd64) {
        fail("its zip64 record lies outside the file");
      }
      directory = {.offset = get<std::uint64_t>(file_, end64 + 48),
                   .size = get<std::uint64_t>(file_, end64 + 40),
                   .count = get<std::uint64_t>(file_, end64 + 32)};
    }
    if (directory.offset > at || directory.size > at - directory.offset ||
        directory.count > directory.size / kCentralBytes) {
      fail("its directory lies outside the file");
    }
    return directory;
  }
  fail("its end is missing (no central directory)");
}

void ZipReader::read_entries(const Directory& directory) {
  const auto bytes = file_.subspan(directory.offset, directory.size);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (bytes.size() - at < kCentralBytes || get<std::uint32_t>(bytes, at) != kCentral) {
      fail("its directory is broken");
    }
    const auto flags = get<std::uint16_t>(bytes, at + 8);
    const auto method = get<std::uint16_t>(bytes, at + 10);
    const std::size_t name_size = get<std::uint16_t>(bytes, at + 28);
    const std::size_t extra_size = get<std::uint16_t>(bytes, at + 30);
    const std::size_t comment_size = get<std::uint16_t>(bytes, at + 32);
    if (bytes.size() - at - kCentralBytes < name_size + extra_size + comment_size) {
      fail("its directory is broken");
    }
    ZipEntry entry{.name = std::string(
                       reinterpret_cast<const char*>(bytes.data()) + at + kCentralBytes, name_size),
                   .offset = get<std::uint32_t>(bytes, at + 42),
                   .size = get<std::uint32_t>(bytes, at + 24),
                   .crc = get<std::uint32_t>(bytes, at + 16)};
    std::uint64_t packed = get<std::uint32_t>(bytes, at + 20);
    // Numbers that do not fit 32 bits lie in the extra field, in this order.
    auto extra = bytes.subspan(at + kCentralBytes + name_size, extra_size);
    while (extra.size() >= 4) {
      const auto id = get<std::uint16_t>(extra, 0);
      const std::size_t size = get<std::uint16_t>(extra, 2);
      if (size > extra.size() - 4) fail("its directory is broken");
      auto body = extra.subspan(4, size);
      for (std::uint64_t* number : {&entry.size, &packed, &entry.offset}) {
        if (id != kZip64Extra || *number != kFull32 || body.size() < 8) continue;
        *number = get<std::uint64_t>(body, 0);
        body = body.subspan(8);
      }
      extra = extra.subspan(4 + size);
    }
    at += kCentralBytes + name_size + extra_size + comment_size;
    entry.readable = (flags & 1u) == 0 && method == 0 && packed == entry.size;
    const std::uint64_t header = entry.offset;
    if (header > directory.offset || directory.offset - header < kLocalBytes ||
        get<std::uint32_t>(file_, header) != kLocal) {
      fail(fmt::format("entry '{}' lies outside the file", entry.name));
    }
    entry.offset = header + kLocalBytes + get<std::uint16_t>(file_, header + 26) +
                   get<std::uint16_t>(file_, header + 28);
    if (entry.offset > directory.offset || packed > directory.offset - entry.offset) {
      fail(fmt::format("entry '{}' of {} bytes lies outside the file", entry.name, packed));
    }
    if (!index_.emplace(entry.name, entries_.size()).second) {
      fail(fmt::format("entry '{}' is there twice", entry.name));
    }
    entries_.push_back(std::move(entry));
  }
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  return found == index_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> ZipReader::data(const ZipEntry& entry) const {
  if (!entry.readable) {
    fail(fmt::format("entry '{}' is compressed or encrypted, which torch.save never does",
                     entry.name));
  }
  const auto bytes = file_.subspan(entry.offset, entry.size);
  if (checksum(bytes.data(), bytes.size()) != entry.crc) {
    fail(fmt::format("the checksum of entry '{}' is wrong", entry.name));
  }
  return bytes;
}

void ZipWriter::add(std::string name, const void* data, std::uint64_t size) {
  const std::uint64_t header = file_.written();
  const bool large = size >= kFull32;
  const std::uint32_t crc = checksum(data, size);
  std::string extra;
  if (large) {
    put<std::uint16_t>(extra, kZip64Extra);
    put<std::uint16_t>(extra, 16);
    put<std::uint64_t>(extra, size);
    put<std::uint64_t>(extra, size);
  }
  const std::uint64_t unpadded = header + kLocalBytes + name.size() + extra.size() + 4;
  const auto padding =
      static_cast<std::uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
  put<std::uint16_t>(extra, kPaddingExtra);
  put<std::uint16_t>(extra, padding);
  extra.append(padding, 'Z');
  std::string out;
  put<std::uint32_t>(out, kLocal);
  put<std::uint16_t>(out, large ? 45 : 20);  // version needed
  put<std::uint16_t>(out, kUtf8Flag);
  put<std::uint16_t>(out, 0);  // stored
  put<std::uint16_t>(out, 0);  // time
  put<std::uint16_t>(out, kFirstDay);
  put<std::uint32_t>(out, crc);
  put<std::uint32_t>(out, large ? kFull32 : static_cast<std::uint32_t>(size));
  put<std::uint32_t>(out, large ? kFull32 : static_cast<std::uint32_t>(size));
  put<std::uint16_t>(out, static_cast<std::uint16_t>(name.size()));
  put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
  file_.write(out + name + extra);
  const std::uint64_t offset = file_.written();
  file_.write(data, size);
  written_.push_back({{std::move(name), offset, size, crc}, header});
}

void ZipWriter::finish() {
  const std::uint64_t begin = file_.written();
  for (const auto& [entry, header] : written_) {
    const bool large = entry.size >= kFull32;
    const bool far = header >= kFull32;
    std::string extra;
    if (large || far) {
      put<std::uint16_t>(extra, kZip64Extra);
      put<std::uint16_t>(extra, static_cast<std::uint16_t>((large ? 16 : 0) + (far ? 8 : 0)));
      if (large) put<std::uint64_t>(extra, entry.size);
      if (large) put<std::uint64_t>(extra, entry.size);
      if (far) put<std::uint64_t>(extra, header);
    }
    std::string out;
    put<std::uint32_t>(out, kCentral);
    put<std::uint16_t>(out, 45);  // version made by
    put<std::uint16_t>(out, large || far ? 45 : 20);
    put<std::uint16_t>(out, kUtf8Flag);
    put<std::uint16_t>(out, 0);  // stored
    put<std::uint16_t>(out, 0);  // time
    put<std::uint16_t>(out, kFirstDay);
    put<std::uint32_t>(out, entry.crc);
    put<std::uint32_t>(out, large ? kFull32 : static_cast<std::uint32_t>(entry.size));
    put<std::uint32_t>(out, large ? kFull32 : static_cast<std::uint32_t>(entry.size));
    put<std::uint16_t>(out, static_cast<std::uint16_t>(entry.name.size()));
    put<std::uint16_t>(out, static_cast<std::uint16_t>(extra.size()));
    out.append(2 + 2 + 2 + 4, '\0');  // length of the comment, disk, attributes
    put<std::uint32_t>(out, far ? kFull32 : static_cast<std::uint32_t>(header));
    file_.write(out + entry.name + extra);
  }
  const std::uint64_t size = file_.written() - begin;
  const std::uint64_t count = written_.size();
  std::string out;
  if (begin >= kFull32 || size >= kFull32 || count >= kFull16) {
    const std::uint64_t end64 = file_.written();
    put<std::uint32_t>(out, kEnd64);
    put<std::uint64_t>(out, kEnd64Bytes - 12);
    put<std::uint16_t>(out, 45);
    put<std::uint16_t>(out, 45);
    put<std::uint64_t>(out, 0);  // both disk numbers
    put<std::uint64_t>(out, count);
    put<std::uint64_t>(out, count);
    put<std::uint64_t>(out, size);
    put<std::uint64_t>(out, begin);
    put<std::uint32_t>(out, kLocator64);
    put<std::uint32_t>(out, 0);
    put<std::uint64_t>(out, end64);
    put<std::uint32_t>(out, 1);
  }
  const auto short_count = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, kFull16));
  put<std::uint32_t>(out, kEnd);
  put<std::uint32_t>(out, 0);  // both disk numbers
  put<std::uint16_t>(out, short_count);
  put<std::uint16_t>(out, short_count);
  put<std::uint32_t>(out, static_cast<std::uint32_t>(std::min<std::uint64_t>(size, kFull32)));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(std::min<std::uint64_t>(begin, kFull32)));
  put<std::uint16_t>(out, 0);
  file_.write(out);
}

}  // namespace sgtrain::tensor
