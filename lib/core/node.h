// The tracked recipe node. A composed recipe is a `Tree` (core/tree.h);
// `Node` is the handle with which components read it. Every mistake is collected in `Problems`
// and thrown together, and every key must be read or is reported with the nearest right name.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tree.h"

namespace sgtrain::core {

/// All mistakes found so far.
class Problems {
 public:
  struct Item {
    std::string where;  // file:line
    std::string path;   // dotted key
    std::string text;
  };
  /// A mistake that was added before is not added again.
  void add(std::string where, std::string path, std::string text);
  const std::vector<Item>& items() const { return items_; }
  bool empty() const { return items_.empty(); }
  /// Throws one InputError that lists everything, in order of file and line.
  void throw_if_any(std::string_view title) const;

  /// Accepted keys without effect etc.: shown once at start, never fatal.
  void note(std::string text) { notes_.push_back(std::move(text)); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<Item> items_;
  std::vector<std::string> notes_;
};

/// What a reader asked for: fills `sgtrain list` (see Node::describe).
struct KeyDoc {
  std::string key, type, default_value, bounds, help;
  bool required = false;
};

class Node;

/// A component of a recipe: a bare name, `{Name: {params}}`, or a map with `_target_: a.b.Name`.
struct Component;

/// A value just read, to be checked at the read: `n.get<int>("max_epochs").min(1)`.
/// Converts to T. A failed check adds a problem; the value stays usable.
template <class T>
class Value {
 public:
  Value(T value, Node* node, std::string key, KeyDoc* doc)
      : value_(std::move(value)), node_(node), key_(std::move(key)), doc_(doc) {}
  operator T() const { return value_; }  // NOLINT(google-explicit-constructor): reads as the value
  const T& value() const { return value_; }
  Value& min(double low) { return in(low, std::numeric_limits<double>::infinity()); }
  Value& max(double high) { return in(-std::numeric_limits<double>::infinity(), high); }
  Value& in(double low, double high);             // numbers and lists of numbers
  Value& above(double low);                       // strictly greater
  Value& one_of(std::vector<std::string> names);  // strings; compared exactly
  Value& help(std::string_view text) {
    if (doc_) doc_->help = text;
    return *this;
  }

 private:
  void fail(const std::string& text);
  T value_;
  Node* node_;
  std::string key_;
  KeyDoc* doc_;
};

/// Reading handle on one value. Cheap to copy. Keys may be given as "canonical|alias|alias".
class Node {
 public:
  Node(TreePtr tree, std::shared_ptr<Problems> problems, std::string path = {});
  /// A node without content (all defaults apply), for tests and for `{Name}` components.
  static Node empty();
  /// A node that records what is asked in `docs` and answers with defaults (`sgtrain list`).
  static Node describe(std::shared_ptr<std::vector<std::unique_ptr<KeyDoc>>> docs);

  Tree::Kind kind() const { return tree_->kind; }
  bool is_null() const { return tree_->kind == Tree::Kind::kNull; }
  bool is_map() const { return tree_->is_map(); }
  bool is_list() const { return tree_->is_list(); }
  bool is_string() const { return tree_->kind == Tree::Kind::kString; }
  bool is_number() const;
  const TreePtr& tree() const { return tree_; }

  /// True when the key is there and not null. Counts as asked, not as read.
  bool has(std::string_view key) const;
  /// The value of a key (null node when absent), marked as read.
  Node child(std::string_view key);
  std::size_t size() const;               // of a list or map
  Node item(std::size_t index);           // of a list, marked as read
  std::vector<std::string> keys() const;  // of a map, in file order

  /// T: bool, int, int64_t, double, std::string, std::vector of these, nested vectors of double.
  template <class T>
  Value<T> get(std::string_view key);  // absent, null or ??? is a problem
  template <class T>
  Value<T> get_or(std::string_view key, T fallback);  // absent or null: fallback
  Value<std::string> get_or(std::string_view key, const char* fallback) {
    return get_or<std::string>(key, std::string(fallback));
  }
  template <class T>
  std::optional<T> find(std::string_view key);  // absent or null: nullopt
  /// This node itself as T; a problem and T{} when it is not one.
  template <class T>
  T as();

  Component component(std::string_view key);                      // required
  std::optional<Component> find_component(std::string_view key);  // absent or null: nullopt
  std::vector<Component> components(std::string_view key);        // list (or one); absent: empty
  Component as_component();                                       // this node itself

  /// Marks this value and all below as read (free-form maps, keys without effect).
  void read_all();
  /// Adds a problem at this node.
  void problem(std::string text);
  /// Adds a problem at a key of this map.
  void problem(std::string_view key, std::string text);
  /// Reports every key below that nobody read, with the nearest key that was asked for.
  void report_unread();

  const std::shared_ptr<Problems>& problems() const { return problems_; }
  const std::string& path() const { return path_; }
  std::string where() const { return tree_->mark.str(); }
  bool describing() const { return docs_ != nullptr; }

 private:
  template <class T>
  friend class Value;
  TreePtr lookup(std::string_view key) const;
  KeyDoc* document(std::string_view key, std::string type, std::string fallback, bool required);
  std::string sub_path(std::string_view key) const;

  TreePtr tree_;
  std::shared_ptr<Problems> problems_;
  std::string path_;
  std::shared_ptr<std::vector<std::unique_ptr<KeyDoc>>> docs_;
};

struct Component {
  std::string name;
  Node params = Node::empty();
};

}  // namespace sgtrain::core
