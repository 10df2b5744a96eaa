#include "tensor/value_tree.h"

#include "core/error.h"

namespace sgtrain::tensor {
namespace {

core::TreePtr convert(const Value& value, const core::Mark& mark) {
  using core::Tree;
  switch (value.kind()) {
    case Value::Kind::kNone:
      return Tree::null(mark);
    case Value::Kind::kBool:
      return Tree::of(value.as_bool(), mark);
    case Value::Kind::kInt:
      return Tree::of(value.as_int(), mark);
    case Value::Kind::kFloat:
      return Tree::of(value.as_double(), mark);
    case Value::Kind::kString:
      return Tree::of(value.as_string(), mark);
    case Value::Kind::kList:
    case Value::Kind::kTuple: {
      auto list = Tree::make_list(mark);
      for (const Value& item : value.items()) list->list.push_back(convert(item, mark));
      return list;
    }
    case Value::Kind::kDict: {
      auto map = Tree::make_map(mark);
      for (const auto& [key, item] : value.pairs()) map->set(key.as_string(), convert(item, mark));
      return map;
    }
    default:
      throw core::InputError(
          "a plain value was expected, found " + std::string(kind_name(value.kind())), mark.str());
  }
}

}  // namespace

core::TreePtr tree_from_value(const Value& value, const std::string& where) {
  return convert(value, {.file = std::make_shared<const std::string>(where), .line = 0});
}

Value value_from_tree(const core::Tree& tree) {
  using Kind = core::Tree::Kind;
  switch (tree.kind) {
    case Kind::kNull:
    case Kind::kMissing:
      return {};
    case Kind::kBool:
      return tree.boolean;
    case Kind::kInt:
      return tree.integer;
    case Kind::kFloat:
      return tree.real;
    case Kind::kString:
      return tree.text;
    case Kind::kList: {
      Value list = Value::list();
      for (const auto& item : tree.list) list.append(value_from_tree(*item));
      return list;
    }
    case Kind::kMap: {
      Value dict = Value::dict();
      for (const auto& [key, item] : tree.map) dict.set(key, value_from_tree(*item));
      return dict;
    }
  }
  return {};
}

}  // namespace sgtrain::tensor
