// What lies on the stack of the pickle machine. Objects may refer to each other in any way,
// cycles included, so they are owned by an arena and never destroyed recursively.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tensor/pickle.h"

namespace sgtrain::tensor::pickling {

struct TensorSpec {
  std::size_t storage = 0;  // index into the storages
  at::ScalarType type = at::kFloat;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
  at::Tensor data;  // a numpy array lies in the pickle itself
};

struct Object {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,
    kList,
    kTuple,
    kDict,
    kGlobal,   // a name; nothing is imported
    kStorage,  // integer: index, plus an offset in elements in `items`
    kTensor,
    kDtype,  // of numpy
    kArray,  // of numpy, before its state is known
    kObject,
  };
  Kind kind = Kind::kNone;
  bool ordered = false;  // kDict
  union {
    bool boolean;
    std::int64_t integer;
    double real;
  } number{.integer = 0};
  std::string text;            // string, bytes, name of a global, dtype or class
  std::vector<Object*> items;  // list, tuple; dict and items of an object: key, value, key, value …
  Object* args = nullptr;      // kObject
  Object* state = nullptr;     // kObject
  std::unique_ptr<TensorSpec> tensor;

  // Filled by the check after the run.
  std::uint8_t visit = 0;
  std::uint32_t depth = 0;
  std::uint64_t weight = 0;

  bool is(Kind k) const { return kind == k; }
};

class Arena {
 public:
  /// Throws core::InputError when there are too many.
  Object* make(Object::Kind kind);
  Object* integer(std::int64_t value);
  Object* string(std::string_view text);
  Object* tuple(std::vector<Object*> items);
  std::vector<StorageRef> storages;
  std::unordered_map<std::string, std::size_t> storage_index;  // by key

 private:
  std::deque<Object> objects_;
};

/// Error text for anything that a right pickle does not do.
[[noreturn]] void broken(std::string_view text);

/// True for names that a harmful file calls (os.system, eval …).
bool is_harmful(std::string_view global);

/// REDUCE: what `callable(*args)` gives, for the known globals; an opaque object for others.
Object* reduce(Arena& arena, Object* callable, Object* args);
/// BUILD: gives `object` its state.
void build(Arena& arena, Object* object, Object* state);
/// BINPERSID: ('storage', type, key, location, elements[, view]).
Object* persistent(Arena& arena, const Object* id);
/// The dtype of "torch.FloatStorage" and the like; throws for others.
at::ScalarType storage_type(std::string_view global);

/// Checks that the graph below `root` is a finite tree of bounded depth and size, and converts it.
Value to_value(Arena& arena, Object* root,
               const std::function<at::Tensor(const StorageRef&)>& load);
/// The check alone.
void check_tree(Object* root);

}  // namespace sgtrain::tensor::pickling
