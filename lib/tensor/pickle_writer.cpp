// Plain values as a pickle of protocol 2 that torch.load(weights_only=True) reads.
#include <fmt/format.h>

#include <bit>
#include <limits>
#include <string>
#include <unordered_map>

#include "core/error.h"
#include "tensor/pickle.h"

namespace sgtrain::tensor {
namespace {

constexpr int kMaxDepth = 200;

struct TorchType {
  at::ScalarType type;
  const char* storage;  // class in module torch; nullptr: only as untyped storage
  const char* dtype;    // name in module torch
};
constexpr TorchType kTypes[] = {
    {at::kFloat, "FloatStorage", "float32"},
    {at::kDouble, "DoubleStorage", "float64"},
    {at::kHalf, "HalfStorage", "float16"},
    {at::kBFloat16, "BFloat16Storage", "bfloat16"},
    {at::kLong, "LongStorage", "int64"},
    {at::kInt, "IntStorage", "int32"},
    {at::kShort, "ShortStorage", "int16"},
    {at::kChar, "CharStorage", "int8"},
    {at::kByte, "ByteStorage", "uint8"},
    {at::kBool, "BoolStorage", "bool"},
    {at::kComplexFloat, "ComplexFloatStorage", "complex64"},
    {at::kComplexDouble, "ComplexDoubleStorage", "complex128"},
    {at::kUInt16, nullptr, "uint16"},
    {at::kUInt32, nullptr, "uint32"},
    {at::kUInt64, nullptr, "uint64"},
    {at::kFloat8_e4m3fn, nullptr, "float8_e4m3fn"},
    {at::kFloat8_e5m2, nullptr, "float8_e5m2"},
};

class Pickler {
 public:
  Pickled run(const Value& value) {
    out_.bytes = "\x80\x02";
    write(value, 0);
    out_.bytes += '.';
    return std::move(out_);
  }

 private:
  template <class T>
  void put(T value) {
    out_.bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void write(const Value& value, int depth) {
    if (depth > kMaxDepth) throw core::Error("a checkpoint's values are nested too deeply");
    using Kind = Value::Kind;
    switch (value.kind()) {
      case Kind::kNone:
        out_.bytes += 'N';
        return;
      case Kind::kBool:
        out_.bytes += value.as_bool() ? '\x88' : '\x89';
        return;
      case Kind::kInt:
        integer(value.as_int());
        return;
      case Kind::kFloat:
        out_.bytes += 'G';
        put(__builtin_bswap64(std::bit_cast<std::uint64_t>(value.as_double())));
        return;
      case Kind::kString:
        string(value.as_string());
        return;
      case Kind::kBytes:
        raw(value.as_bytes());
        return;
      case Kind::kList:
        out_.bytes += ']';
        sequence(value.items(), depth, 'e');
        return;
      case Kind::kTuple:
        sequence(value.items(), depth, 't');
        return;
      case Kind::kDict:
        dict(value, depth);
        return;
      case Kind::kTensor:
        tensor(value.as_tensor());
        return;
      case Kind::kObject:
        break;
    }
    throw core::Error(
        fmt::format("an object of class '{}' cannot be written to a checkpoint", value.type()));
  }

  void integer(std::int64_t value) {
    if (value >= 0 && value <= 0xFF) {
      out_.bytes += 'K';
      put(static_cast<std::uint8_t>(value));
    } else if (value >= std::numeric_limits<std::int32_t>::min() &&
               value <= std::numeric_limits<std::int32_t>::max()) {
      out_.bytes += 'J';
      put(static_cast<std::int32_t>(value));
    } else {
      out_.bytes += "\x8a\x08";
      put(value);
    }
  }

  // Each text and each global is written once and recalled afterwards.
  bool recall(const std::string& key) {
    const auto [known, fresh] = memo_.try_emplace(key, static_cast<std::uint32_t>(memo_.size()));
    if (fresh) return false;
    out_.bytes += 'j';
    put(known->second);
    return true;
  }
  void remember(const std::string& key) {
    out_.bytes += 'r';
    put(memo_.at(key));
  }

  void string(const std::string& text) {
    if (text.size() > std::numeric_limits<std::int32_t>::max()) {
      throw core::Error("a text of a checkpoint is too long");
    }
    const std::string key = "s" + text;
    if (recall(key)) return;
    out_.bytes += 'X';
    put(static_cast<std::uint32_t>(text.size()));
    out_.bytes += text;
    remember(key);
  }

  void global(const char* module, const char* name) {
    const std::string text = fmt::format("c{}\n{}\n", module, name);
    if (recall(text)) return;
    out_.bytes += text;
    remember(text);
  }

  // Protocol 2 has no bytes: text of the characters 0 to 255 through _codecs.encode.
  void raw(const std::string& bytes) {
    global("_codecs", "encode");
    std::string text;
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) {
        text += c;
      } else {
        text += static_cast<char>(0xC0 | (byte >> 6));
        text += static_cast<char>(0x80 | (byte & 0x3F));
      }
    }
    string(text);
    string("latin1");
    out_.bytes += "\x86R";  // TUPLE2, REDUCE
  }

  void sequence(const Value::List& items, int depth, char end) {
    if (items.empty()) {
      if (end == 't') out_.bytes += ')';
      return;
    }
    out_.bytes += '(';
    for (const Value& item : items) write(item, depth + 1);
    out_.bytes += end;
  }

  void empty_ordered_dict() {
    global("collections", "OrderedDict");
    out_.bytes += ")R";
  }

  void dict(const Value& value, int depth) {
    if (value.is_ordered()) {
      empty_ordered_dict();
    } else {
      out_.bytes += '}';
    }
    if (value.pairs().empty()) return;
    out_.bytes += '(';
    for (const auto& [key, item] : value.pairs()) {
      write(key, depth + 1);
      write(item, depth + 1);
    }
    out_.bytes += 'u';
  }

  void integers(at::IntArrayRef values) {
    if (values.empty()) {
      out_.bytes += ')';
      return;
    }
    out_.bytes += '(';
    for (const std::int64_t value : values) integer(value);
    out_.bytes += 't';
  }

  static const TorchType& type_of(const at::Tensor& tensor) {
    for (const TorchType& type : kTypes) {
      if (type.type == tensor.scalar_type()) return type;
    }
    throw core::Error(fmt::format("tensors of type {} cannot be written to a checkpoint",
                                  c10::toString(tensor.scalar_type())));
  }

  // Tensors that are the same memory are one storage, as Python keeps tied weights.
  std::string storage_key(const at::Tensor& tensor) {
    std::string key = std::to_string(out_.tensors.size());
    if (tensor.is_contiguous() && tensor.numel() > 0) {
      const std::string place =
          fmt::format("{} {} {} {}", tensor.const_data_ptr(), tensor.numel(),
                      static_cast<int>(tensor.scalar_type()), tensor.device().str());
      const auto [known, fresh] = places_.try_emplace(place, key);
      if (!fresh) return known->second;
    }
    out_.tensors.push_back({key, tensor.detach()});
    return key;
  }

  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) throw core::Error("an undefined tensor cannot be written");
    if (tensor.layout() != at::kStrided || tensor.is_quantized()) {
      throw core::Error("sparse and quantized tensors cannot be written to a checkpoint");
    }
    const TorchType& type = type_of(tensor);
    const bool typed = type.storage != nullptr;
    global("torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    out_.bytes += "((";
    string("storage");
    if (typed) {
      global("torch", type.storage);
    } else {
      global("torch.storage", "UntypedStorage");
    }
    string(storage_key(tensor));
    string("cpu");
    integer(typed ? tensor.numel() : static_cast<std::int64_t>(tensor.nbytes()));
    out_.bytes += "tQ";  // TUPLE, BINPERSID
    integer(0);          // offset
    integers(tensor.sizes());
    integers(c10::contiguous_strides(tensor.sizes()));
    out_.bytes += '\x89';  // requires_grad
    empty_ordered_dict();  // backward hooks
    if (!typed) {
      global("torch", type.dtype);
      out_.bytes += 'N';  // metadata
    }
    out_.bytes += "tR";
  }

  Pickled out_;
  std::unordered_map<std::string, std::uint32_t> memo_;
  std::unordered_map<std::string, std::string> places_;
};

}  // namespace

Pickled pickle(const Value& value) {
  return Pickler().run(value);
}

}  // namespace sgtrain::tensor
