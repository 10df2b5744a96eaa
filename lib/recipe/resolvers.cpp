#include "recipe/resolvers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "recipe/roboflow.h"
#include "recipe/value_grammar.h"

namespace sgtrain::recipe {
namespace {

using core::Mark;
using core::Tree;
using core::TreePtr;
using Arguments = std::vector<TreePtr>;

void expect(const Arguments& arguments, std::size_t low, std::size_t high, std::string_view usage) {
  if (arguments.size() >= low && arguments.size() <= high) return;
  throw ResolverError("is used as ${" + std::string(usage) + "}, found " +
                      std::to_string(arguments.size()) + " arguments");
}

bool is_whole(const Tree& tree) {
  return tree.kind == Tree::Kind::kInt || tree.kind == Tree::Kind::kBool;
}

std::int64_t whole(const Tree& tree) {
  return tree.kind == Tree::Kind::kBool ? (tree.boolean ? 1 : 0) : tree.integer;
}

double number(const Tree& tree) {
  if (is_whole(tree)) return static_cast<double>(whole(tree));
  if (tree.kind == Tree::Kind::kFloat) return tree.real;
  throw ResolverError("takes numbers, found " + std::string(kind_name(tree.kind)) +
                      (tree.text.empty() ? "" : " '" + tree.text + "'"));
}

/// Sum or product. Integers stay integers, as in Python.
template <bool product>
TreePtr fold(const Arguments& arguments, const Mark& mark) {
  std::int64_t integer = product ? 1 : 0;
  double real = product ? 1.0 : 0.0;
  bool whole_so_far = true;
  for (const TreePtr& argument : arguments) {
    const double value = number(*argument);
    if constexpr (product)
      real *= value;
    else
      real += value;
    whole_so_far = whole_so_far && is_whole(*argument);
    if (!whole_so_far) continue;
    const bool overflow = product ? __builtin_mul_overflow(integer, whole(*argument), &integer)
                                  : __builtin_add_overflow(integer, whole(*argument), &integer);
    if (overflow) throw ResolverError("has a result of more than 64 bits");
  }
  return whole_so_far ? Tree::of(integer, mark) : Tree::of(real, mark);
}

TreePtr divide(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 2, 2, "div:x,y");
  const double below = number(*arguments[1]);
  if (below == 0.0) throw ResolverError("divides by zero");
  return Tree::of(number(*arguments[0]) / below, mark);
}

bool truthy(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
    case Tree::Kind::kMissing:
      return false;
    case Tree::Kind::kBool:
      return tree.boolean;
    case Tree::Kind::kInt:
      return tree.integer != 0;
    case Tree::Kind::kFloat:
      return tree.real != 0.0;
    case Tree::Kind::kString:
      return !tree.text.empty();
    case Tree::Kind::kList:
      return !tree.list.empty();
    case Tree::Kind::kMap:
      return !tree.map.empty();
  }
  return false;
}

TreePtr list_item(const Tree& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.list.size());
  const std::int64_t at = index < 0 ? index + size : index;
  if (at < 0 || at >= size) {
    throw ResolverError("asks for item " + std::to_string(index) + " of a list of " +
                        std::to_string(size));
  }
  return list.list[static_cast<std::size_t>(at)];
}

TreePtr get_item(const Arguments& arguments, const Mark&) {
  expect(arguments, 2, 2, "getitem:container,key");
  const Tree& container = *arguments[0];
  const Tree& key = *arguments[1];
  if (container.is_list()) {
    if (!is_whole(key)) throw ResolverError("takes an integer as the key of a list");
    return list_item(container, whole(key));
  }
  if (!container.is_map()) {
    throw ResolverError("takes a list or a map first, found " +
                        std::string(kind_name(container.kind)));
  }
  const std::string name = key.text;
  if (const TreePtr value = container.find(name)) return value;
  std::vector<std::string> known;
  for (const auto& [candidate, value] : container.map) known.push_back(candidate);
  throw ResolverError("finds no key '" + name + "' in the map" + core::did_you_mean(name, known) +
                      " (it has " + core::join(known) + ")");
}

template <bool first>
TreePtr end_item(const Arguments& arguments, const Mark&) {
  expect(arguments, 1, 1, first ? "first:list" : "last:list");
  if (!arguments[0]->is_list()) {
    throw ResolverError("takes a list, found " + std::string(kind_name(arguments[0]->kind)));
  }
  return list_item(*arguments[0], first ? 0 : -1);
}

TreePtr length(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 1, "len:container");
  const Tree& value = *arguments[0];
  if (value.is_list()) return Tree::of(static_cast<std::int64_t>(value.list.size()), mark);
  if (value.is_map()) return Tree::of(static_cast<std::int64_t>(value.map.size()), mark);
  if (value.kind != Tree::Kind::kString) {
    throw ResolverError("takes a list, a map or a text, found " +
                        std::string(kind_name(value.kind)));
  }
  std::int64_t characters = 0;  // of UTF-8: all bytes that do not continue one
  for (const char c : value.text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return Tree::of(characters, mark);
}

/// Ours: nearest integer, so that a part of max_epochs can be a number of epochs.
TreePtr round_number(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 1, "round:x");
  const double value = number(*arguments[0]);
  if (!(std::abs(value) < 9e15)) throw ResolverError("has a result of more than 64 bits");
  return Tree::of(static_cast<std::int64_t>(std::llround(value)), mark);
}

/// Ours: smallest or largest of the arguments.
template <bool smallest>
TreePtr extreme(const Arguments& arguments, const Mark&) {
  expect(arguments, 1, 1000, smallest ? "min:x,y" : "max:x,y");
  return *std::min_element(arguments.begin(), arguments.end(),
                           [](const TreePtr& a, const TreePtr& b) {
                             return smallest ? number(*a) < number(*b) : number(*a) > number(*b);
                           });
}

TreePtr output_dir(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 2, 2, "hydra_output_dir:ckpt_root_dir,experiment_name");
  const auto text = [](const Tree& tree) {
    return tree.kind == Tree::Kind::kNull ? std::string() : tree.text;
  };
  const std::string root = text(*arguments[0]);
  const std::filesystem::path path =
      std::filesystem::path(root.empty() ? "checkpoints" : root) / text(*arguments[1]);
  return Tree::of(path.string(), mark);
}

TreePtr class_name(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 1, "class:dotted.path");
  return Tree::of(arguments[0]->text, mark);  // components are named by the last part of the path
}

TreePtr dataset_classes(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 1, "roboflow_dataset_num_classes:dataset_name");
  const std::string& name = arguments[0]->text;
  if (const auto classes = roboflow_classes(name)) {
    return Tree::of(static_cast<std::int64_t>(*classes), mark);
  }
  throw ResolverError("knows no data set '" + name + "' of Roboflow-100" +
                      core::did_you_mean(name, roboflow_datasets()));
}

TreePtr environment(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 2, "oc.env:NAME,default");
  const std::string& name = arguments[0]->text;
  if (const char* value = std::getenv(name.c_str())) return Tree::of(value, mark);
  if (arguments.size() == 1) {
    throw ResolverError("finds no environment variable '" + name +
                        "', and no default is given (${oc.env:" + name + ",default})");
  }
  if (arguments[1]->kind == Tree::Kind::kNull) return Tree::null(mark);
  return Tree::of(python_text(*arguments[1]), mark);
}

TreePtr decode(const Arguments& arguments, const Mark& mark) {
  expect(arguments, 1, 1, "oc.decode:text");
  if (arguments[0]->kind == Tree::Kind::kNull) return Tree::null(mark);
  if (arguments[0]->kind != Tree::Kind::kString) throw ResolverError("takes a text");
  return parse_value(arguments[0]->text, mark);
}

const std::map<std::string, Resolver, std::less<>>& table() {
  static const std::map<std::string, Resolver, std::less<>> resolvers = {
      {"add", fold<false>},
      {"mul",
       [](const Arguments& arguments, const Mark& mark) {
         expect(arguments, 1, 1000, "mul:x,y");
         return fold<true>(arguments, mark);
       }},
      {"div", divide},
      {"round", round_number},
      {"min", extreme<true>},
      {"max", extreme<false>},
      {"cond",
       [](const Arguments& arguments, const Mark&) {
         expect(arguments, 3, 3, "cond:boolean,x,y");
         return truthy(*arguments[0]) ? arguments[1] : arguments[2];
       }},
      {"getitem", get_item},
      {"first", end_item<true>},
      {"last", end_item<false>},
      {"len", length},
      {"class", class_name},
      {"hydra_output_dir", output_dir},
      {"roboflow_dataset_num_classes", dataset_classes},
      {"oc.env", environment},
      {"oc.decode", decode},
      {"oc.create",
       [](const Arguments& arguments, const Mark&) {
         expect(arguments, 1, 1, "oc.create:value");
         return arguments[0];
       }},
  };
  return resolvers;
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 40> buffer{};
  const double size = std::abs(value);
  const bool fixed = size == 0.0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  std::string text(buffer.data(), end);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string python_repr(const Tree& value) {
  if (value.kind != Tree::Kind::kString) return python_text(value);
  const char quote =
      value.text.find('\'') != std::string::npos && value.text.find('"') == std::string::npos
          ? '"'
          : '\'';
  std::string out(1, quote);
  for (const char c : value.text) {
    if (c == quote || c == '\\') out += '\\';
    out += c;
  }
  return out + quote;
}

}  // namespace

std::string python_text(const Tree& value) {
  switch (value.kind) {
    case Tree::Kind::kNull:
      return "None";
    case Tree::Kind::kMissing:
      return "???";
    case Tree::Kind::kBool:
      return value.boolean ? "True" : "False";
    case Tree::Kind::kInt:
      return std::to_string(value.integer);
    case Tree::Kind::kFloat:
      return python_float(value.real);
    case Tree::Kind::kString:
      return value.text;
    case Tree::Kind::kList:
    case Tree::Kind::kMap:
      break;
  }
  std::string out = value.is_list() ? "[" : "{";
  for (const TreePtr& item : value.list) out += (out.size() > 1 ? ", " : "") + python_repr(*item);
  for (const auto& [key, item] : value.map) {
    out += (out.size() > 1 ? ", '" : "'") + key + "': " + python_repr(*item);
  }
  return out + (value.is_list() ? "]" : "}");
}

const Resolver* find_resolver(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : &found->second;
}

std::vector<std::string> resolver_names() {
  std::vector<std::string> names = {"oc.deprecated", "oc.dict.keys", "oc.dict.values", "oc.select"};
  for (const auto& [name, resolver] : table()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace sgtrain::recipe
