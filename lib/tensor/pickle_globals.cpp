// The globals that a checkpoint may name, and what each builds. Nothing here runs code of the file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "core/error.h"
#include "core/text.h"
#include "tensor/pickle_object.h"

namespace sgtrain::tensor::pickling {
namespace {

using Kind = Object::Kind;
using Builder = Object* (*)(Arena&, const std::vector<Object*>&);

constexpr std::size_t kMaxObjects = 5'000'000;
constexpr std::size_t kMaxDims = 64;  // what LibTorch can index

struct NamedType {
  std::string_view name;
  at::ScalarType type;
};
constexpr std::array kStorages = {
    NamedType{"FloatStorage", at::kFloat},
    NamedType{"DoubleStorage", at::kDouble},
    NamedType{"HalfStorage", at::kHalf},
    NamedType{"BFloat16Storage", at::kBFloat16},
    NamedType{"LongStorage", at::kLong},
    NamedType{"IntStorage", at::kInt},
    NamedType{"ShortStorage", at::kShort},
    NamedType{"CharStorage", at::kChar},
    NamedType{"ByteStorage", at::kByte},
    NamedType{"BoolStorage", at::kBool},
    NamedType{"ComplexFloatStorage", at::kComplexFloat},
    NamedType{"ComplexDoubleStorage", at::kComplexDouble},
    NamedType{"UntypedStorage", at::kByte},
    NamedType{"_UntypedStorage", at::kByte},
};
constexpr std::array kTorchDtypes = {
    NamedType{"float32", at::kFloat},
    NamedType{"float64", at::kDouble},
    NamedType{"float16", at::kHalf},
    NamedType{"bfloat16", at::kBFloat16},
    NamedType{"int64", at::kLong},
    NamedType{"int32", at::kInt},
    NamedType{"int16", at::kShort},
    NamedType{"int8", at::kChar},
    NamedType{"uint8", at::kByte},
    NamedType{"bool", at::kBool},
    NamedType{"uint16", at::kUInt16},
    NamedType{"uint32", at::kUInt32},
    NamedType{"uint64", at::kUInt64},
    NamedType{"complex64", at::kComplexFloat},
    NamedType{"complex128", at::kComplexDouble},
    NamedType{"float8_e4m3fn", at::kFloat8_e4m3fn},
    NamedType{"float8_e5m2", at::kFloat8_e5m2},
};
constexpr std::array kNumpyDtypes = {
    NamedType{"f4", at::kFloat},  NamedType{"f8", at::kDouble}, NamedType{"f2", at::kHalf},
    NamedType{"i8", at::kLong},   NamedType{"i4", at::kInt},    NamedType{"i2", at::kShort},
    NamedType{"i1", at::kChar},   NamedType{"u1", at::kByte},   NamedType{"b1", at::kBool},
    NamedType{"u2", at::kUInt16}, NamedType{"u4", at::kUInt32}, NamedType{"u8", at::kUInt64},
};

template <class Table>
const NamedType* look_up(const Table& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const NamedType& entry) { return entry.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::string_view last_name(std::string_view global) {
  return global.substr(global.rfind('.') + 1);
}

const Object* argument(const std::vector<Object*>& args, std::size_t i, Kind kind) {
  if (i >= args.size() || !args[i]->is(kind)) broken("arguments of a known function are wrong");
  return args[i];
}

std::vector<std::int64_t> integers(const Object* list) {
  if (list->items.size() > kMaxDims) broken("a tensor has too many dimensions");
  std::vector<std::int64_t> out;
  for (const Object* item : list->items) {
    if (!item->is(Kind::kInt)) broken("a shape is not made of whole numbers");
    out.push_back(item->number.integer);
  }
  return out;
}

// Every element must lie in the storage, and a small file must not make a huge tensor.
void check_extent(const TensorSpec& spec, std::int64_t elements) {
  constexpr std::int64_t kMaxExpanded = 1 << 20;  // elements that stride 0 may repeat
  std::int64_t last = spec.offset, count = 1;
  if (spec.sizes.size() != spec.strides.size() || spec.offset < 0) broken("a tensor has no shape");
  bool overflow = false;
  for (std::size_t i = 0; i < spec.sizes.size(); ++i) {
    const std::int64_t size = spec.sizes[i], stride = spec.strides[i];
    if (size < 0 || stride < 0) broken("a tensor has a negative size");
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(std::max<std::int64_t>(size, 1) - 1, stride, &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
    overflow |= __builtin_mul_overflow(count, size, &count);
  }
  if (std::find(spec.sizes.begin(), spec.sizes.end(), 0) != spec.sizes.end()) return;
  if (overflow || last >= elements || count > std::max(elements, kMaxExpanded)) {
    broken("a tensor reaches outside its storage");
  }
}

Object* make_tensor(Arena& arena, const std::vector<Object*>& args, const at::ScalarType* type) {
  const Object* storage = argument(args, 0, Kind::kStorage);
  const StorageRef& ref = arena.storages[static_cast<std::size_t>(storage->number.integer)];
  Object* out = arena.make(Kind::kTensor);
  out->tensor = std::make_unique<TensorSpec>();
  TensorSpec& spec = *out->tensor;
  spec.storage = static_cast<std::size_t>(storage->number.integer);
  spec.type = type != nullptr ? *type : ref.type;
  const std::int64_t view = storage->items.empty() ? 0 : storage->items[0]->number.integer;
  const std::int64_t offset = argument(args, 1, Kind::kInt)->number.integer;
  if (offset < 0 || view < 0 || __builtin_add_overflow(offset, view, &spec.offset)) {
    broken("a tensor reaches outside its storage");
  }
  spec.sizes = integers(argument(args, 2, Kind::kTuple));
  spec.strides = integers(argument(args, 3, Kind::kTuple));
  check_extent(spec, static_cast<std::int64_t>(ref.bytes() / c10::elementSize(spec.type)));
  return out;
}

Object* rebuild_tensor(Arena& arena, const std::vector<Object*>& args) {
  return make_tensor(arena, args, nullptr);
}

Object* rebuild_tensor_v3(Arena& arena, const std::vector<Object*>& args) {
  const Object* dtype = argument(args, 6, Kind::kGlobal);
  const NamedType* type = look_up(kTorchDtypes, last_name(dtype->text));
  if (type == nullptr) broken(fmt::format("tensors of type '{}' are not known", dtype->text));
  return make_tensor(arena, args, &type->type);
}

Object* rebuild_parameter(Arena&, const std::vector<Object*>& args) {
  argument(args, 0, Kind::kTensor);
  return args[0];
}

// (function, type, args, state): a tensor with attributes of its own; those are dropped.
Object* rebuild_from_type(Arena& arena, const std::vector<Object*>& args) {
  argument(args, 0, Kind::kGlobal);
  argument(args, 2, Kind::kTuple);
  Object* made = reduce(arena, args[0], args[2]);
  if (!made->is(Kind::kTensor)) broken("a tensor is made by an unknown function");
  return made;
}

Object* ordered_dict(Arena& arena, const std::vector<Object*>& args) {
  Object* out = arena.make(Kind::kDict);
  out->ordered = true;
  if (args.empty()) return out;
  const bool known = args.size() == 1 && (args[0]->is(Kind::kList) || args[0]->is(Kind::kTuple));
  if (!known) broken("an OrderedDict is made of no list");
  for (const Object* pair : args[0]->items) {
    if (pair->items.size() != 2) broken("an OrderedDict is made of no pairs");
    out->items.insert(out->items.end(), pair->items.begin(), pair->items.end());
  }
  return out;
}

Object* plain_dict(Arena& arena, const std::vector<Object*>&) {
  return arena.make(Kind::kDict);
}

template <Kind kind>
Object* sequence(Arena& arena, const std::vector<Object*>& args) {
  Object* out = arena.make(kind);
  if (args.empty()) return out;
  if (!args[0]->is(Kind::kList) && !args[0]->is(Kind::kTuple)) broken("a list is made of no list");
  out->items = args[0]->items;
  return out;
}

// bytes of protocol 2: text of the characters 0 to 255, "latin1".
Object* encode(Arena& arena, const std::vector<Object*>& args) {
  const std::string& text = argument(args, 0, Kind::kString)->text;
  Object* out = arena.make(Kind::kBytes);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x80) {
      out->text.push_back(static_cast<char>(c));
    } else if ((c == 0xC2 || c == 0xC3) && i + 1 < text.size()) {
      out->text.push_back(static_cast<char>(((c & 3) << 6) | (text[++i] & 0x3F)));
    } else {
      broken("bytes are not latin1 text");
    }
  }
  return out;
}

Object* device(Arena& arena, const std::vector<Object*>& args) {
  return arena.string(argument(args, 0, Kind::kString)->text);
}

Object* numpy_dtype(Arena& arena, const std::vector<Object*>& args) {
  Object* out = arena.make(Kind::kDtype);
  out->text = argument(args, 0, Kind::kString)->text;
  return out;
}

Object* numpy_reconstruct(Arena& arena, const std::vector<Object*>&) {
  return arena.make(Kind::kArray);
}

// The elements of a numpy array or scalar; its type must be a plain number.
at::Tensor numpy_data(const Object* dtype, const std::vector<std::int64_t>& sizes,
                      std::string_view raw) {
  const NamedType* type = look_up(kNumpyDtypes, dtype->text);
  if (type == nullptr) return {};
  std::uint64_t bytes = c10::elementSize(type->type);
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      broken("an array has a wrong shape");
    }
  }
  if (bytes != raw.size()) broken("an array has too many or too few bytes");
  at::Tensor out = at::empty(sizes, type->type);
  if (bytes > 0) std::memcpy(out.data_ptr(), raw.data(), bytes);
  return out;
}

Object* opaque(Arena& arena, std::string_view type, Object* args) {
  Object* out = arena.make(Kind::kObject);
  out->text = type;
  out->args = args;
  return out;
}

Object* numpy_scalar(Arena& arena, const std::vector<Object*>& args) {
  const Object* dtype = argument(args, 0, Kind::kDtype);
  const Object* raw = argument(args, 1, Kind::kBytes);
  const at::Tensor value = numpy_data(dtype, {}, raw->text);
  if (!value.defined()) return opaque(arena, "numpy." + dtype->text, args[1]);
  if (value.scalar_type() == at::kBool) {
    Object* out = arena.make(Kind::kBool);
    out->number.boolean = value.item().toBool();
    return out;
  }
  if (!value.is_floating_point()) return arena.integer(value.item().toLong());
  Object* out = arena.make(Kind::kFloat);
  out->number.real = value.item().toDouble();
  return out;
}

const std::unordered_map<std::string_view, Builder>& builders() {
  static const std::unordered_map<std::string_view, Builder> table = {
      {"torch._utils._rebuild_tensor", rebuild_tensor},
      {"torch._utils._rebuild_tensor_v2", rebuild_tensor},
      {"torch._utils._rebuild_tensor_v3", rebuild_tensor_v3},
      {"torch._utils._rebuild_parameter", rebuild_parameter},
      {"torch._utils._rebuild_parameter_with_state", rebuild_parameter},
      {"torch._tensor._rebuild_from_type_v2", rebuild_from_type},
      {"collections.OrderedDict", ordered_dict},
      {"collections.defaultdict", plain_dict},
      {"builtins.dict", plain_dict},
      {"builtins.list", sequence<Kind::kList>},
      {"builtins.set", sequence<Kind::kList>},
      {"builtins.frozenset", sequence<Kind::kList>},
      {"__builtin__.set", sequence<Kind::kList>},
      {"torch.Size", sequence<Kind::kTuple>},
      {"torch.device", device},
      {"_codecs.encode", encode},
      {"numpy.dtype", numpy_dtype},
      {"numpy.core.multiarray.scalar", numpy_scalar},
      {"numpy._core.multiarray.scalar", numpy_scalar},
      {"numpy.core.multiarray._reconstruct", numpy_reconstruct},
      {"numpy._core.multiarray._reconstruct", numpy_reconstruct},
  };
  return table;
}

// Pickles of a numpy array: (version, shape, dtype, column-major, bytes).
void build_array(Object* array, const Object* state) {
  if (!state->is(Kind::kTuple)) broken("an array has no state");
  const std::vector<Object*>& items = state->items;
  const Object* dtype = argument(items, 2, Kind::kDtype);
  std::vector<std::int64_t> sizes = integers(argument(items, 1, Kind::kTuple));
  const bool column_major = argument(items, 3, Kind::kBool)->number.boolean;
  if (column_major) std::reverse(sizes.begin(), sizes.end());
  at::Tensor data;
  if (items.size() > 4 && items[4]->is(Kind::kBytes)) {
    data = numpy_data(dtype, sizes, items[4]->text);
  }
  if (!data.defined()) {  // strings, Python objects: of no use here
    array->kind = Kind::kObject;
    array->text = "numpy.ndarray";
    return;
  }
  if (column_major)
    data = data.permute([&] {
      std::vector<std::int64_t> order(sizes.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<std::int64_t>(order.size() - 1 - i);
      }
      return order;
    }());
  array->kind = Kind::kTensor;
  array->tensor = std::make_unique<TensorSpec>();
  array->tensor->data = data.contiguous();
}

// numpy.dtype: (version, byte order, …).
void build_dtype(const Object* dtype, const Object* state) {
  const bool known =
      state->is(Kind::kTuple) && state->items.size() > 1 && state->items[1]->is(Kind::kString);
  if (!known || state->items[1]->text == ">") {
    broken(fmt::format("numpy data of type '{}' with foreign byte order", dtype->text));
  }
}

}  // namespace

void broken(std::string_view text) {
  throw core::Error(text);
}

Object* Arena::make(Object::Kind kind) {
  if (objects_.size() >= kMaxObjects) broken("too many objects");
  Object& out = objects_.emplace_back();
  out.kind = kind;
  return &out;
}

Object* Arena::integer(std::int64_t value) {
  Object* out = make(Kind::kInt);
  out->number.integer = value;
  return out;
}

Object* Arena::string(std::string_view text) {
  Object* out = make(Kind::kString);
  out->text = text;
  return out;
}

Object* Arena::tuple(std::vector<Object*> items) {
  Object* out = make(Kind::kTuple);
  out->items = std::move(items);
  return out;
}

bool is_harmful(std::string_view global) {
  static constexpr std::array kModules = {
      "os",         "posix",    "nt",         "sys",     "subprocess", "shutil",
      "socket",     "pty",      "runpy",      "ctypes",  "importlib",  "commands",
      "code",       "codeop",   "pickle",     "_pickle", "asyncio",    "multiprocessing",
      "webbrowser", "builtins", "__builtin__"};
  static constexpr std::array kPlain = {"set",   "frozenset", "list",  "dict",  "tuple",
                                        "str",   "int",       "float", "bool",  "complex",
                                        "bytes", "bytearray", "slice", "range", "object",
                                        "type",  "getattr",   "map",   "zip"};
  const std::string_view module = global.substr(0, global.find('.'));
  if (std::find(kModules.begin(), kModules.end(), module) == kModules.end()) return false;
  const bool builtin = module == "builtins" || module == "__builtin__";
  return !builtin || std::find(kPlain.begin(), kPlain.end(), last_name(global)) == kPlain.end();
}

at::ScalarType storage_type(std::string_view global) {
  const NamedType* type = look_up(kStorages, last_name(global));
  if (type == nullptr || !global.starts_with("torch.")) {
    broken(fmt::format("storages of type '{}' are not known", global));
  }
  return type->type;
}

Object* reduce(Arena& arena, Object* callable, Object* args) {
  if (!callable->is(Kind::kGlobal)) broken("it calls something that is no function");
  if (!args->is(Kind::kTuple)) broken("arguments of a function are no tuple");
  const auto found = builders().find(callable->text);
  if (found != builders().end()) return found->second(arena, args->items);
  // copyreg._reconstructor(class, base, state): how protocols before 2 make instances.
  if (callable->text == "copyreg._reconstructor" || callable->text == "copy_reg._reconstructor") {
    return opaque(arena, argument(args->items, 0, Kind::kGlobal)->text, arena.tuple({}));
  }
  return opaque(arena, callable->text, args);
}

void build(Arena&, Object* object, Object* state) {
  switch (object->kind) {
    case Kind::kObject:
      object->state = state;
      return;
    case Kind::kArray:
      build_array(object, state);
      return;
    case Kind::kDtype:
      build_dtype(object, state);
      return;
    case Kind::kDict:    // an OrderedDict with attributes, as state_dicts have (_metadata)
    case Kind::kTensor:  // a tensor with attributes
      return;
    default:
      broken("state is given to no object");
  }
}

Object* persistent(Arena& arena, const Object* id) {
  if (!id->is(Kind::kTuple)) broken("a storage has no description");
  const auto& items = id->items;
  if (argument(items, 0, Kind::kString)->text != "storage")
    broken("an outside object is no storage");
  StorageRef ref{.key = argument(items, 2, Kind::kString)->text,
                 .type = storage_type(argument(items, 1, Kind::kGlobal)->text),
                 .elements = argument(items, 4, Kind::kInt)->number.integer};
  if (ref.elements < 0 ||
      ref.elements > std::numeric_limits<std::int64_t>::max() /
                         static_cast<std::int64_t>(c10::elementSize(ref.type))) {
    broken("a storage has a wrong size");
  }
  Object* out = arena.make(Kind::kStorage);
  out->text = ref.key;
  if (items.size() > 5 && items[5]->is(Kind::kTuple)) {  // legacy: (key, offset, elements)
    argument(items[5]->items, 1, Kind::kInt);
    out->items.push_back(items[5]->items[1]);
  }
  // Checkpoints name each storage about once; a linear search would be quadratic.
  const auto known = arena.storage_index.try_emplace(ref.key, arena.storages.size());
  out->number.integer = static_cast<std::int64_t>(known.first->second);
  if (known.second) {
    arena.storages.push_back(std::move(ref));
  } else if (const StorageRef& old = arena.storages[known.first->second];
             old.type != ref.type || old.elements != ref.elements) {
    broken(fmt::format("storage '{}' is described in two ways", ref.key));
  }
  return out;
}

}  // namespace sgtrain::tensor::pickling
