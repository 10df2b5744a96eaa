// A composed recipe as plain data that knows file and line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::core {

/// Where a value was written. `file` may also be "command line".
struct Mark {
  std::shared_ptr<const std::string> file;
  int line = 0;             // 1-based; 0 = no line
  std::string str() const;  // "recipe.yaml:12"
};

struct Tree;
using TreePtr = std::shared_ptr<Tree>;

/// One value of a recipe. Built by recipe/, read through Node.
struct Tree {
  enum class Kind { kNull, kBool, kInt, kFloat, kString, kList, kMap, kMissing };  // kMissing: ???

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string text;           // kString: the value; other scalars: as written
  std::vector<TreePtr> list;  // kList
  std::vector<std::pair<std::string, TreePtr>> map;  // kMap, in file order, keys unique
  Mark mark;
  /// A ??? or an interpolation that could not be resolved and was reported as a problem: `text`
  /// still holds it, and readers say nothing more about it.
  bool unresolved = false;

  // Reading state (see Node).
  bool was_read = false;
  std::vector<std::string> asked;  // keys that readers of this map asked for

  static TreePtr null(Mark mark = {});
  static TreePtr of(bool value, Mark mark = {});
  static TreePtr of(std::int64_t value, Mark mark = {});
  static TreePtr of(double value, Mark mark = {});
  static TreePtr of(std::string value, Mark mark = {});
  static TreePtr of(const char* value, Mark mark = {});
  static TreePtr make_list(Mark mark = {});
  static TreePtr make_map(Mark mark = {});

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_scalar() const { return !is_map() && !is_list(); }

  /// Value of a key of a map, nullptr when absent.
  TreePtr find(std::string_view key) const;
  /// Value at "a.b.0.c" (list items by index), nullptr when absent.
  TreePtr find_path(std::string_view dotted) const;
  /// Sets or replaces a key of a map.
  void set(std::string_view key, TreePtr value);
  bool erase(std::string_view key);
  /// Deep copy without reading state.
  TreePtr clone() const;
};

/// Deep equality of kind and value (order of map keys included); marks are ignored.
bool equal(const Tree& a, const Tree& b);
std::string_view kind_name(Tree::Kind kind);

}  // namespace sgtrain::core
