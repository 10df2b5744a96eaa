// The content of a checkpoint as plain data: what a Python dict of numbers, strings, lists and
// tensors is, without Python.
#pragma once

#include <ATen/ATen.h>

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::tensor {

/// Copies are cheap (they share until one is changed).
class Value {
 public:
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kBytes,
    kList,
    kTuple,
    kDict,
    kTensor,
    kObject,  // an instance of a class that only Python knows: its name and state, nothing else
  };
  using List = std::vector<Value>;
  using Dict = std::vector<std::pair<Value, Value>>;  // in Python's order

  Value() = default;  // None
  Value(bool value) : kind_(Kind::kBool) { number_.boolean = value; }
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T value) : kind_(Kind::kInt) {
    number_.integer = static_cast<std::int64_t>(value);
  }
  Value(double value) : kind_(Kind::kFloat) { number_.real = value; }
  Value(std::string text);
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(at::Tensor tensor);
  static Value bytes(std::string raw);
  static Value list(List items = {});
  static Value tuple(List items = {});
  static Value dict(Dict items = {});
  /// Python's OrderedDict, which state_dicts are.
  static Value ordered_dict(Dict items = {});
  static Value object(std::string type, Value args, Value state, Value items);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_number() const;  // bool, int or float
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_sequence() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_ordered() const;  // an OrderedDict

  // Each throws core::Error when the value is of another kind. Numbers convert as in Python; a
  // tensor with one element counts as its number.
  bool as_bool() const;
  std::int64_t as_int() const;
  double as_double() const;
  const std::string& as_string() const;
  const std::string& as_bytes() const;
  const at::Tensor& as_tensor() const;
  const List& items() const;        // list or tuple
  const Dict& pairs() const;        // dict
  const std::string& type() const;  // object: "package.module.Class"
  const Value& args() const;        // object: what its constructor was given
  const Value& state() const;       // object: its attributes, usually a dict
  const Value& contents() const;    // object: items of a subclass of dict or list

  /// Value of a string key of a dict; nullptr when absent or when this is not a dict.
  const Value* find(std::string_view key) const;
  /// An error names the keys that are there.
  const Value& operator[](std::string_view key) const;
  /// Sets or replaces a string key of a dict.
  void set(std::string_view key, Value value);
  void append(Value value);             // list, tuple
  void append(Value key, Value value);  // dict; the key must be new

 private:
  struct Data;
  Data& own();  // not shared with another value
  [[noreturn]] void wrong(const char* expected) const;

  Kind kind_ = Kind::kNone;
  union {
    bool boolean;
    std::int64_t integer;
    double real;
  } number_{.integer = 0};
  std::shared_ptr<Data> data_;
};

std::string_view kind_name(Value::Kind kind);

/// Same kinds, values, order of keys; tensors bit by bit.
bool same(const Value& a, const Value& b);

}  // namespace sgtrain::tensor
