// Writing of protobuf's wire format (https://protobuf.dev/programming-guides/encoding): the few
// messages that experiment trackers read need no generated code.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace sgtrain::loggers {

/// One message, built field by field. A nested message is built first and added as bytes.
class ProtoWriter {
 public:
  ProtoWriter& varint(int field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
    return *this;
  }
  ProtoWriter& real(int field, double value) {
    key(field, 1);
    fixed(std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoWriter& real32(int field, float value) {
    key(field, 5);
    fixed(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  /// Strings, bytes and nested messages.
  ProtoWriter& bytes(int field, std::string_view value) {
    key(field, 2);
    raw_varint(value.size());
    out_.append(value);
    return *this;
  }
  ProtoWriter& message(int field, const ProtoWriter& nested) { return bytes(field, nested.out_); }
  ProtoWriter& packed_reals(int field, std::span<const double> values) {
    ProtoWriter packed;
    for (const double v : values) packed.fixed(std::bit_cast<std::uint64_t>(v), 8);
    return message(field, packed);
  }
  const std::string& str() const { return out_; }

 private:
  void key(int field, int wire_type) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire_type));
  }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<char>(value | 0x80));
    out_.push_back(static_cast<char>(value));
  }
  void fixed(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
  }
  std::string out_;
};

}  // namespace sgtrain::loggers
