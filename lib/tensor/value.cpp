#include "tensor/value.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::tensor {

struct Value::Data {
  std::string text;  // string, bytes, type of an object
  at::Tensor tensor;
  List list;  // list, tuple; object: args, state, items
  Dict dict;
  bool ordered = false;
};

Value::Value(std::string text) : kind_(Kind::kString), data_(std::make_shared<Data>()) {
  data_->text = std::move(text);
}

Value::Value(at::Tensor tensor) : kind_(Kind::kTensor), data_(std::make_shared<Data>()) {
  data_->tensor = std::move(tensor);
}

Value Value::bytes(std::string raw) {
  Value out(std::move(raw));
  out.kind_ = Kind::kBytes;
  return out;
}

Value Value::list(List items) {
  Value out;
  out.kind_ = Kind::kList;
  out.data_ = std::make_shared<Data>();
  out.data_->list = std::move(items);
  return out;
}

Value Value::tuple(List items) {
  Value out = list(std::move(items));
  out.kind_ = Kind::kTuple;
  return out;
}

Value Value::dict(Dict items) {
  Value out;
  out.kind_ = Kind::kDict;
  out.data_ = std::make_shared<Data>();
  out.data_->dict = std::move(items);
  return out;
}

Value Value::ordered_dict(Dict items) {
  Value out = dict(std::move(items));
  out.data_->ordered = true;
  return out;
}

Value Value::object(std::string type, Value args, Value state, Value items) {
  Value out = list({std::move(args), std::move(state), std::move(items)});
  out.kind_ = Kind::kObject;
  out.data_->text = std::move(type);
  return out;
}

bool Value::is_number() const {
  return kind_ == Kind::kBool || kind_ == Kind::kInt || kind_ == Kind::kFloat;
}

bool Value::is_ordered() const {
  return is_dict() && data_->ordered;
}

bool Value::as_bool() const {
  if (kind_ == Kind::kInt) return number_.integer != 0;
  if (kind_ != Kind::kBool) wrong("a truth value");
  return number_.boolean;
}

std::int64_t Value::as_int() const {
  if (kind_ == Kind::kBool) return number_.boolean ? 1 : 0;
  if (is_tensor() && as_tensor().numel() == 1) return as_tensor().item().toLong();
  if (kind_ != Kind::kInt) wrong("a whole number");
  return number_.integer;
}

double Value::as_double() const {
  if (kind_ == Kind::kFloat) return number_.real;
  if (kind_ == Kind::kBool || kind_ == Kind::kInt) return static_cast<double>(as_int());
  if (is_tensor() && as_tensor().numel() == 1) return as_tensor().item().toDouble();
  wrong("a number");
}

const std::string& Value::as_string() const {
  if (kind_ != Kind::kString) wrong("a string");
  return data_->text;
}

const std::string& Value::as_bytes() const {
  if (kind_ != Kind::kBytes) wrong("bytes");
  return data_->text;
}

const at::Tensor& Value::as_tensor() const {
  if (kind_ != Kind::kTensor) wrong("a tensor");
  return data_->tensor;
}

const Value::List& Value::items() const {
  if (!is_sequence()) wrong("a list");
  return data_->list;
}

const Value::Dict& Value::pairs() const {
  if (!is_dict()) wrong("a dict");
  return data_->dict;
}

const std::string& Value::type() const {
  if (!is_object()) wrong("an object");
  return data_->text;
}

const Value& Value::args() const {
  if (!is_object()) wrong("an object");
  return data_->list[0];
}

const Value& Value::state() const {
  if (!is_object()) wrong("an object");
  return data_->list[1];
}

const Value& Value::contents() const {
  if (!is_object()) wrong("an object");
  return data_->list[2];
}

const Value* Value::find(std::string_view key) const {
  if (!is_dict()) return nullptr;
  for (const auto& [own, value] : data_->dict) {
    if (own.is_string() && own.as_string() == key) return &value;
  }
  return nullptr;
}

const Value& Value::operator[](std::string_view key) const {
  if (const Value* found = find(key)) return *found;
  std::vector<std::string> names;
  for (const auto& [own, value] : pairs()) {
    if (own.is_string() && names.size() < 20) names.push_back(own.as_string());
  }
  throw core::Error(fmt::format("there is no '{}'{} (there are: {})", key,
                                core::did_you_mean(key, names), core::join(names)));
}

Value::Data& Value::own() {
  if (data_.use_count() > 1) data_ = std::make_shared<Data>(*data_);
  return *data_;
}

void Value::set(std::string_view key, Value value) {
  if (!is_dict()) wrong("a dict");
  for (auto& [own_key, own_value] : own().dict) {
    if (own_key.is_string() && own_key.as_string() == key) {
      own_value = std::move(value);
      return;
    }
  }
  data_->dict.emplace_back(key, std::move(value));
}

void Value::append(Value value) {
  if (!is_sequence()) wrong("a list");
  own().list.push_back(std::move(value));
}

void Value::append(Value key, Value value) {
  if (!is_dict()) wrong("a dict");
  own().dict.emplace_back(std::move(key), std::move(value));
}

void Value::wrong(const char* expected) const {
  throw core::Error(fmt::format(
      "expected {}, found {}", expected,
      is_object() ? "an object of class '" + data_->text + "'" : std::string(kind_name(kind_))));
}

std::string_view kind_name(Value::Kind kind) {
  constexpr std::array kNames = {"None", "bool",  "int",  "float",  "str",   "bytes",
                                 "list", "tuple", "dict", "tensor", "object"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.to(at::kCPU).contiguous();
  const at::Tensor y = b.to(at::kCPU).contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

bool same_items(const Value::List& a, const Value::List& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
}

}  // namespace

bool same(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Value::Kind::kNone:
      return true;
    case Value::Kind::kBool:
      return a.as_bool() == b.as_bool();
    case Value::Kind::kInt:
      return a.as_int() == b.as_int();
    case Value::Kind::kFloat:
      return std::bit_cast<std::uint64_t>(a.as_double()) ==
             std::bit_cast<std::uint64_t>(b.as_double());
    case Value::Kind::kString:
      return a.as_string() == b.as_string();
    case Value::Kind::kBytes:
      return a.as_bytes() == b.as_bytes();
    case Value::Kind::kList:
    case Value::Kind::kTuple:
      return same_items(a.items(), b.items());
    case Value::Kind::kDict:
      return a.pairs().size() == b.pairs().size() &&
             std::equal(a.pairs().begin(), a.pairs().end(), b.pairs().begin(),
                        [](const auto& x, const auto& y) {
                          return same(x.first, y.first) && same(x.second, y.second);
                        });
    case Value::Kind::kTensor:
      return same_tensor(a.as_tensor(), b.as_tensor());
    case Value::Kind::kObject:
      return a.type() == b.type() && same(a.args(), b.args()) && same(a.state(), b.state()) &&
             same(a.contents(), b.contents());
  }
  return false;
}

}  // namespace sgtrain::tensor
