// From the machine's objects to plain values.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "tensor/pickle_object.h"

namespace sgtrain::tensor::pickling {
namespace {

using Kind = Object::Kind;

constexpr std::uint32_t kMaxDepth = 200;
// Values when everything that is shared is counted each time: a small file whose lists contain
// each other must not take forever to walk.
constexpr std::uint64_t kMaxWeight = 20'000'000;

struct Frame {
  Object* object;
  std::size_t next = 0;
};

Object* child(const Object* object, std::size_t i) {
  if (i < object->items.size()) return object->items[i];
  i -= object->items.size();
  if (i == 0) return object->args != nullptr ? object->args : object->state;
  return i == 1 && object->args != nullptr ? object->state : nullptr;
}

class Converter {
 public:
  Converter(const Arena& arena, const std::function<at::Tensor(const StorageRef&)>& load)
      : arena_(arena), load_(load) {}

  Value convert(const Object* object) {
    const auto known = done_.find(object);
    if (known != done_.end()) return known->second;
    Value value = make(object);
    if (!object->items.empty() || object->is(Kind::kTensor)) done_.emplace(object, value);
    return value;
  }

 private:
  Value make(const Object* object) {
    switch (object->kind) {
      case Kind::kNone:
        return {};
      case Kind::kBool:
        return object->number.boolean;
      case Kind::kInt:
        return object->number.integer;
      case Kind::kFloat:
        return object->number.real;
      case Kind::kString:
        return Value(object->text);
      case Kind::kBytes:
        return Value::bytes(object->text);
      case Kind::kList:
        return Value::list(sequence(object));
      case Kind::kTuple:
        return Value::tuple(sequence(object));
      case Kind::kDict:
        return object->ordered ? Value::ordered_dict(pairs(object)) : Value::dict(pairs(object));
      case Kind::kTensor:
        return Value(tensor(*object->tensor));
      case Kind::kStorage:
        return Value(whole_storage(object));
      case Kind::kObject:
        return opaque(object);
      case Kind::kGlobal:
        if (object->text.starts_with("torch.") && object->text.find('.', 6) == std::string::npos) {
          return Value(object->text);  // a dtype
        }
        return Value::object(object->text, {}, {}, {});
      case Kind::kDtype:
        return Value(object->text);
      case Kind::kArray:
        return Value::object("numpy.ndarray", {}, {}, {});
    }
    broken("an object of unknown kind");
  }

  Value::List sequence(const Object* object) {
    Value::List out;
    out.reserve(object->items.size());
    for (const Object* item : object->items) out.push_back(convert(item));
    return out;
  }

  // As in Python, a key that is set again keeps its place and takes the new value.
  Value::Dict pairs(const Object* object) {
    Value::Dict out;
    std::unordered_map<std::string, std::size_t> index;
    for (std::size_t i = 0; i + 1 < object->items.size(); i += 2) {
      Value key = convert(object->items[i]);
      Value value = convert(object->items[i + 1]);
      if (key.is_string() || key.is_number()) {
        const std::string name =
            key.is_string() ? "s" + key.as_string() : fmt::format("n{}", key.as_double());
        const auto [place, fresh] = index.try_emplace(name, out.size());
        if (!fresh) {
          out[place->second].second = std::move(value);
          continue;
        }
      }
      out.emplace_back(std::move(key), std::move(value));
    }
    return out;
  }

  Value opaque(const Object* object) {
    const Value args = object->args != nullptr ? convert(object->args) : Value();
    const Value state = object->state != nullptr ? convert(object->state) : Value();
    Value items;
    if (!object->items.empty()) {
      items = object->ordered ? Value::dict(pairs(object)) : Value::list(sequence(object));
    }
    return Value::object(object->text, args, state, items);
  }

  const at::Tensor& bytes(std::size_t index) {
    auto [found, fresh] = storages_.try_emplace(index);
    if (fresh) {
      const StorageRef& ref = arena_.storages[index];
      found->second = load_(ref);
      if (static_cast<std::uint64_t>(found->second.numel()) < ref.bytes()) {
        broken(fmt::format("storage '{}' has too few bytes", ref.key));
      }
    }
    return found->second;
  }

  at::Tensor tensor(const TensorSpec& spec) {
    if (spec.data.defined()) return spec.data;
    at::Tensor out = at::empty({0}, at::TensorOptions().dtype(spec.type));
    out.set_(bytes(spec.storage).storage(), spec.offset, spec.sizes, spec.strides);
    return out;
  }

  at::Tensor whole_storage(const Object* object) {
    const auto index = static_cast<std::size_t>(object->number.integer);
    const StorageRef& ref = arena_.storages[index];
    return tensor({.storage = index,
                   .type = ref.type,
                   .offset = 0,
                   .sizes = {ref.elements},
                   .strides = {1},
                   .data = {}});
  }

  const Arena& arena_;
  const std::function<at::Tensor(const StorageRef&)>& load_;
  std::unordered_map<const Object*, Value> done_;
  std::unordered_map<std::size_t, at::Tensor> storages_;
};

}  // namespace

void check_tree(Object* root) {
  constexpr std::uint8_t kOpen = 1, kDone = 2;
  std::vector<Frame> stack = {{root}};
  root->visit = kOpen;
  root->weight = 1;
  while (!stack.empty()) {
    Frame& frame = stack.back();
    Object* object = frame.object;
    Object* below = child(object, frame.next++);
    if (below == nullptr) {
      object->visit = kDone;
      stack.pop_back();
      continue;
    }
    if (below->visit == kOpen) broken("an object contains itself");
    if (below->visit == kDone) {
      object->depth = std::max(object->depth, below->depth + 1);
      object->weight += below->weight;
      if (object->depth > kMaxDepth) broken("objects are nested too deeply");
      if (object->weight > kMaxWeight) broken("too many objects");
      continue;
    }
    --frame.next;  // looked at again when it is done
    below->visit = kOpen;
    below->weight = 1;
    stack.push_back({below});
  }
}

Value to_value(Arena& arena, Object* root,
               const std::function<at::Tensor(const StorageRef&)>& load) {
  return Converter(arena, load).convert(root);
}

}  // namespace sgtrain::tensor::pickling
