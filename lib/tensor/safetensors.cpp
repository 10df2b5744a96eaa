#include "tensor/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "core/text.h"

namespace sgtrain::tensor {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation
constexpr std::size_t kMaxDims = 64;               // what LibTorch can index
constexpr std::size_t kAlign = 8;

struct DtypeName {
  const char* name;
  at::ScalarType type;
};
constexpr std::array kDtypes = {
    DtypeName{"BOOL", at::kBool},
    DtypeName{"U8", at::kByte},
    DtypeName{"I8", at::kChar},
    DtypeName{"I16", at::kShort},
    DtypeName{"I32", at::kInt},
    DtypeName{"I64", at::kLong},
    DtypeName{"F16", at::kHalf},
    DtypeName{"BF16", at::kBFloat16},
    DtypeName{"F32", at::kFloat},
    DtypeName{"F64", at::kDouble},
    DtypeName{"U16", at::kUInt16},
    DtypeName{"U32", at::kUInt32},
    DtypeName{"U64", at::kUInt64},
    DtypeName{"C64", at::kComplexFloat},
    DtypeName{"F8_E4M3", at::kFloat8_e4m3fn},
    DtypeName{"F8_E5M2", at::kFloat8_e5m2},
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(core::MappedFile::open(path)) {}

  SafetensorsFile read() {
    const Json header = parse_header();
    struct Slice {
      std::uint64_t begin, end;
      std::string name;
    };
    SafetensorsFile out;
    std::vector<Slice> slices;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, out.metadata);
        continue;
      }
      const auto [begin, end] = offsets(name, entry);
      slices.push_back({begin, end, name});
    }
    std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    std::uint64_t at = 0;
    for (const Slice& slice : slices) {
      if (slice.begin != at) fail(slice.name, "its bytes overlap others or leave a hole");
      at = slice.end;
      out.tensors.emplace_back(slice.name, make(slice.name, header[slice.name], slice.begin));
    }
    if (at != data_bytes_) {
      fail("", fmt::format("{} bytes of tensors are listed, {} are there", at, data_bytes_));
    }
    return out;
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, std::string_view text) const {
    const std::string what =
        tensor.empty() ? std::string(text) : fmt::format("tensor '{}': {}", tensor, text);
    throw core::InputError("not a valid safetensors file: " + what, file_->path().string(),
                           "the file is damaged, incomplete or of another format");
  }

  Json parse_header() {
    const auto bytes = file_->bytes();
    if (bytes.size() < kLengthBytes) fail("", "shorter than 8 bytes");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    if (length > kMaxHeader || length > bytes.size() - kLengthBytes) {
      fail("", fmt::format("its header of {} bytes does not fit the file of {} bytes", length,
                           bytes.size()));
    }
    data_begin_ = kLengthBytes + length;
    data_bytes_ = bytes.size() - data_begin_;
    const char* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
    // No value of a right header lies deeper than 3 (entry, shape, number).
    const auto shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= 3; };
    Json header = Json::parse(text, text + length, shallow, /*allow_exceptions=*/false);
    if (!header.is_object()) fail("", "its header is not JSON");
    return header;
  }

  void read_metadata(const Json& entry, std::map<std::string, std::string>& out) const {
    if (!entry.is_object()) fail("__metadata__", "is not a map");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("__metadata__", "has a value that is not a string");
      out[key] = value.get<std::string>();
    }
  }

  std::pair<std::uint64_t, std::uint64_t> offsets(const std::string& name,
                                                  const Json& entry) const {
    if (!entry.is_object() || !entry.contains("data_offsets") || !entry.contains("shape") ||
        !entry.contains("dtype")) {
      fail(name, "dtype, shape and data_offsets are required");
    }
    const Json& pair = entry["data_offsets"];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        !pair[1].is_number_unsigned()) {
      fail(name, "data_offsets must be two numbers");
    }
    const auto begin = pair[0].get<std::uint64_t>();
    const auto end = pair[1].get<std::uint64_t>();
    if (begin > end || end > data_bytes_) fail(name, "data_offsets lie outside the file");
    return {begin, end};
  }

  at::ScalarType dtype(const std::string& name, const Json& entry) const {
    if (entry["dtype"].is_string()) {
      const auto text = entry["dtype"].get<std::string>();
      for (const DtypeName& known : kDtypes) {
        if (text == known.name) return known.type;
      }
      fail(name, "unknown dtype '" + text + "'");
    }
    fail(name, "dtype must be a string");
  }

  at::Tensor make(const std::string& name, const Json& entry, std::uint64_t begin) const {
    const std::uint64_t bytes = offsets(name, entry).second - begin;
    const at::ScalarType type = dtype(name, entry);
    const Json& shape = entry["shape"];
    if (!shape.is_array() || shape.size() > kMaxDims) fail(name, "shape must be a list of sizes");
    std::vector<std::int64_t> sizes;
    std::uint64_t expected = c10::elementSize(type);
    for (const Json& size : shape) {
      if (!size.is_number_unsigned()) fail(name, "shape must be a list of sizes");
      const auto n = size.get<std::uint64_t>();
      if (n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
          __builtin_mul_overflow(expected, n, &expected)) {
        fail(name, "its shape is too large");
      }
      sizes.push_back(static_cast<std::int64_t>(n));
    }
    if (expected != bytes) {
      fail(name, fmt::format("its shape needs {} bytes, data_offsets give {}", expected, bytes));
    }
    const auto options = at::TensorOptions().dtype(type);
    if (bytes == 0) return at::empty(sizes, options);
    std::byte* data = file_->data() + data_begin_ + begin;
    if (reinterpret_cast<std::uintptr_t>(data) % c10::elementSize(type) != 0) {
      const at::Tensor copy = at::empty(sizes, options);
      std::memcpy(copy.data_ptr(), data, bytes);
      return copy;
    }
    return at::from_blob(
        data, sizes, [file = file_](void*) {}, options);
  }

  std::shared_ptr<core::MappedFile> file_;
  std::uint64_t data_begin_ = 0, data_bytes_ = 0;
};

const char* dtype_name(at::ScalarType type, const std::string& tensor) {
  for (const DtypeName& known : kDtypes) {
    if (known.type == type) return known.name;
  }
  throw core::Error(
      fmt::format("safetensors cannot hold tensor '{}' of type {}", tensor, c10::toString(type)));
}

}  // namespace

const at::Tensor* SafetensorsFile::find(std::string_view name) const {
  for (const auto& [own, tensor] : tensors) {
    if (own == name) return &tensor;
  }
  return nullptr;
}

const at::Tensor& SafetensorsFile::operator[](std::string_view name) const {
  if (const at::Tensor* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& [own, tensor] : tensors) names.push_back(own);
  throw core::Error(
      fmt::format("there is no tensor '{}'{}", name, core::did_you_mean(name, names)));
}

bool is_safetensors(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, kLengthBytes + 1> head{};
  std::uint64_t length = 0;
  if (!in.read(head.data(), head.size())) return false;
  std::memcpy(&length, head.data(), kLengthBytes);
  return length >= 2 && length <= kMaxHeader && head.back() == '{';
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  return Reader(path).read();
}

void write_safetensors(const std::filesystem::path& path,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide elements first, so that every tensor is aligned on its own element size.
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensors[a].second.element_size() > tensors[b].second.element_size();
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const std::size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    const std::uint64_t bytes = tensor.numel() * tensor.element_size();
    if (header.contains(name)) throw core::Error("two tensors are named '" + name + "'");
    header[name] = {{"dtype", dtype_name(tensor.scalar_type(), name)},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kAlign - 1) / kAlign * kAlign, ' ');
  const std::uint64_t length = text.size();
  core::AtomicFile file(path, kLengthBytes + length + at);
  file.write(&length, kLengthBytes);
  file.write(text);
  for (const std::size_t i : order) {
    const at::Tensor flat = tensors[i].second.detach().to(at::kCPU).contiguous();
    file.write(flat.const_data_ptr(), flat.nbytes());
  }
  file.commit();
}

}  // namespace sgtrain::tensor
