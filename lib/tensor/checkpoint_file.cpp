#include "tensor/checkpoint_file.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>

#include "core/atomic_file.h"
#include "core/error.h"
#include "core/mapped_file.h"
#include "tensor/pickle.h"
#include "tensor/zip.h"

namespace sgtrain::tensor {
namespace {

constexpr std::uint64_t kMaxPickle = 256u << 20;  // bytes; the tensors lie beside it
constexpr std::size_t kAlignment = 16;            // of any element type
// PROTO 2, LONG1 of ten bytes: the magic number with which legacy files begin.
constexpr std::string_view kLegacyMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class PthReader {
 public:
  explicit PthReader(const std::filesystem::path& path)
      : file_(core::MappedFile::open(path)), where_(path.string()) {}

  Value read() const {
    const Bytes bytes = file_->bytes();
    if (ZipReader::looks_like_zip(bytes)) return read_zip();
    if (bytes.size() > 2 && text_of(bytes).substr(2).starts_with(kLegacyMagic))
      return read_legacy();
    refuse_other(text_of(bytes));
  }

 private:
  [[noreturn]] void fail(std::string_view what, std::string_view fix) const {
    throw core::InputError(what, where_, fix);
  }

  [[noreturn]] void refuse_other(std::string_view text) const {
    constexpr std::string_view kTarMagic = "ustar";
    if (text.empty()) fail("the file is empty", "use another checkpoint");
    if (text.starts_with("version https://git-lfs")) {
      fail("this is a Git LFS pointer, not the file itself", "run `git lfs pull`");
    }
    const std::string_view begin = text.substr(0, 256);
    if (begin.find("<html") != begin.npos || begin.find("<!DOCTYPE") != begin.npos) {
      fail("this is a web page, not a checkpoint", "download the file itself");
    }
    if (text.size() > 262 && text.substr(257, 5) == kTarMagic) {
      fail("checkpoints of torch before 0.1.10 are not read",
           "load it in Python and save it again with torch.save");
    }
    fail("this is not a checkpoint: neither a zip archive nor a pickle of torch.save",
         "give a .pth, .pt or .safetensors file");
  }

  // Memory of `size` bytes of the file, without a copy when an element may lie there.
  at::Tensor memory(Bytes bytes) const {
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (size == 0) return at::empty({0}, at::kByte);
    std::byte* data = file_->data() + (bytes.data() - file_->bytes().data());
    if (reinterpret_cast<std::uintptr_t>(data) % kAlignment != 0) {
      at::Tensor copy = at::empty({size}, at::kByte);
      std::memcpy(copy.data_ptr(), data, bytes.size());
      return copy;
    }
    return at::from_blob(
        data, {size}, [file = file_](void*) {}, at::kByte);
  }

  Value read_zip() const {
    const ZipReader zip(file_->bytes(), where_);
    const std::string root = find_root(zip);
    if (zip.find(root + "constants.pkl") != nullptr) {
      fail("this is a TorchScript program, not a checkpoint", "give the .pth file of the training");
    }
    if (const ZipEntry* order = zip.find(root + "byteorder")) {
      if (text_of(zip.data(*order)) != "little")
        fail("the file is big-endian", "save it elsewhere");
    }
    const ZipEntry& entry = *zip.find(root + "data.pkl");
    if (entry.size > kMaxPickle) {
      fail(fmt::format("its pickle of {} is too large", core::human_bytes(entry.size)), "");
    }
    Unpickler unpickler(zip.data(entry), where_);
    unpickler.run();
    return unpickler.result([&](const StorageRef& ref) {
      const ZipEntry* record = zip.find(root + "data/" + ref.key);
      if (record == nullptr || record->size < ref.bytes()) {
        fail(fmt::format("storage '{}' of {} is not in the file", ref.key,
                         core::human_bytes(ref.bytes())),
             "the file is damaged or incomplete");
      }
      return memory(zip.data(*record));
    });
  }

  std::string find_root(const ZipReader& zip) const {
    constexpr std::string_view kName = "data.pkl";
    for (const ZipEntry& entry : zip.entries()) {
      if (entry.name == kName || entry.name.ends_with("/data.pkl")) {
        return entry.name.substr(0, entry.name.size() - kName.size());
      }
    }
    fail("this zip archive is not a checkpoint (it has no data.pkl)",
         "give a .pth, .pt or .safetensors file");
  }

  // Four pickles (magic number, protocol, machine, content), the keys of the storages, then each
  // storage: a 64-bit count of elements and the elements.
  Value read_legacy() const {
    Bytes rest = file_->bytes();
    const auto next = [&](std::uint64_t limit) {
      auto pickle = std::make_unique<Unpickler>(rest.first(std::min(rest.size(), limit)), where_);
      pickle->run();
      rest = rest.subspan(pickle->consumed());
      return pickle;
    };
    const auto no_storage = [this](const StorageRef&) -> at::Tensor {
      fail("its head is broken", "the file is damaged");
    };
    next(kMaxPickle);
    const Value protocol = next(kMaxPickle)->result(no_storage);
    const Value machine = next(kMaxPickle)->result(no_storage);
    constexpr std::int64_t kProtocol = 1001;
    const Value* little = machine.find("little_endian");
    if (protocol.kind() != Value::Kind::kInt || protocol.as_int() != kProtocol ||
        little == nullptr || !little->is_number() || !little->as_bool()) {
      fail("its head is broken, or it is big-endian", "load it in Python and save it again");
    }
    const auto content = next(kMaxPickle);
    const Value keys = next(kMaxPickle)->result(no_storage);
    const auto storages = legacy_storages(content->storages(), keys, rest);
    return content->result([&](const StorageRef& ref) {
      const auto found = storages.find(ref.key);
      if (found == storages.end()) {
        fail(fmt::format("storage '{}' is not in the file", ref.key), "the file is incomplete");
      }
      return memory(found->second);
    });
  }

  std::map<std::string, Bytes> legacy_storages(const std::vector<StorageRef>& refs,
                                               const Value& keys, Bytes rest) const {
    std::map<std::string, at::ScalarType> types;
    for (const StorageRef& ref : refs) types[ref.key] = ref.type;
    std::map<std::string, Bytes> out;
    if (!keys.is_sequence()) fail("its list of storages is broken", "the file is damaged");
    for (const Value& key : keys.items()) {
      const auto type = key.is_string() ? types.find(key.as_string()) : types.end();
      std::uint64_t count = 0;
      if (type == types.end() || rest.size() < sizeof(count)) {
        fail("its storages are incomplete", "the file is damaged or incomplete");
      }
      std::memcpy(&count, rest.data(), sizeof(count));
      rest = rest.subspan(sizeof(count));
      const std::uint64_t width = c10::elementSize(type->second);
      if (count > rest.size() / width) {
        fail(fmt::format("storage '{}' reaches beyond the end of the file", key.as_string()),
             "the file is damaged or incomplete");
      }
      out[key.as_string()] = rest.first(count * width);
      rest = rest.subspan(count * width);
    }
    return out;
  }

  std::shared_ptr<core::MappedFile> file_;
  std::string where_;
};

}  // namespace

Value read_pth(const std::filesystem::path& path) {
  return PthReader(path).read();
}

void write_pth(const std::filesystem::path& path, const Value& value) {
  const Pickled pickled = pickle(value);
  std::uint64_t bytes = pickled.bytes.size() + 8 * ZipWriter::kOverhead;
  for (const PickledTensor& entry : pickled.tensors) {
    bytes += entry.tensor.numel() * entry.tensor.element_size() + ZipWriter::kOverhead;
  }
  core::AtomicFile file(path, bytes);
  ZipWriter zip(file);
  const std::string root = "archive/";
  zip.add(root + "data.pkl", pickled.bytes);
  zip.add(root + ".format_version", "1");
  zip.add(root + ".storage_alignment", "64");
  zip.add(root + "byteorder", "little");
  for (const PickledTensor& entry : pickled.tensors) {
    const at::Tensor flat = entry.tensor.to(at::kCPU).contiguous();
    zip.add(root + "data/" + entry.key, flat.const_data_ptr(), flat.nbytes());
  }
  zip.add(root + "version", "3\n");
  zip.finish();
  file.commit();
}

}  // namespace sgtrain::tensor
