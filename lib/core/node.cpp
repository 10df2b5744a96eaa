#include "core/node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "core/bounds.h"
#include "core/error.h"
#include "core/text.h"

namespace sgtrain::core {

// ------------------------------------------------------------ Problems

namespace {
/// "dir/recipe.yaml:12" as (file, 12), so that line 9 comes before line 10.
std::pair<std::string, int> file_and_line(const std::string& where) {
  const auto colon = where.rfind(':');
  int line = 0;
  if (colon != std::string::npos) {
    const char* end = where.data() + where.size();
    const auto [stop, error] = std::from_chars(where.data() + colon + 1, end, line);
    if (error == std::errc{} && stop == end) return {where.substr(0, colon), line};
  }
  return {where, 0};
}
}  // namespace

void Problems::add(std::string where, std::string path, std::string text) {
  for (const Item& item : items_) {
    if (item.where == where && item.path == path && item.text == text) return;
  }
  items_.push_back({std::move(where), std::move(path), std::move(text)});
}

void Problems::throw_if_any(std::string_view title) const {
  if (items_.empty()) return;
  std::vector<Item> sorted = items_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Item& a, const Item& b) {
    return file_and_line(a.where) < file_and_line(b.where);
  });
  std::string text(title);
  text += items_.size() == 1 ? ": 1 mistake" : ": " + std::to_string(items_.size()) + " mistakes";
  for (const Item& item : sorted) {
    text += "\n  ";
    if (!item.where.empty()) text += item.where + ": ";
    if (!item.path.empty()) text += item.path + ": ";
    text += item.text;
  }
  throw InputError(text);
}

// ------------------------------------------------- conversion to C++ types

namespace {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>)
    return "boolean";
  else if constexpr (std::is_integral_v<T>)
    return "integer";
  else if constexpr (std::is_floating_point_v<T>)
    return "number";
  else if constexpr (IsVector<T>::value)
    return "list of " + type_name<typename T::value_type>();
  else
    return "text";
}

std::optional<double> number_of(const Tree& tree) {
  if (tree.kind == Tree::Kind::kInt) return static_cast<double>(tree.integer);
  if (tree.kind == Tree::Kind::kFloat) return tree.real;
  if (tree.kind == Tree::Kind::kString) {  // YAML 1.1 leaves 1e-6 a string; users mean the number
    double value = 0;
    const char* end = tree.text.data() + tree.text.size();
    const auto [stop, error] = std::from_chars(tree.text.data(), end, value);
    if (error == std::errc{} && stop == end && !tree.text.empty()) return value;
  }
  return std::nullopt;
}

template <class T>
std::optional<T> convert(const Tree& tree) {
  if constexpr (std::is_same_v<T, bool>) {
    if (tree.kind == Tree::Kind::kBool) return tree.boolean;
    if (tree.kind == Tree::Kind::kInt && (tree.integer == 0 || tree.integer == 1))
      return tree.integer == 1;
    return std::nullopt;
  } else if constexpr (std::is_integral_v<T>) {
    if (tree.kind == Tree::Kind::kInt) {
      if (tree.integer < std::numeric_limits<T>::min() ||
          tree.integer > std::numeric_limits<T>::max()) {
        return std::nullopt;
      }
      return static_cast<T>(tree.integer);
    }
    const auto number = number_of(tree);
    if (number && std::nearbyint(*number) == *number && std::abs(*number) < 2e9) {
      return static_cast<T>(*number);
    }
    return std::nullopt;
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto number = number_of(tree);
    if (number && !std::isfinite(*number)) return std::nullopt;  // no key means infinity or NaN
    return number;
  } else if constexpr (IsVector<T>::value) {
    if (!tree.is_list()) return std::nullopt;
    T out;
    for (const TreePtr& item : tree.list) {
      auto value = convert<typename T::value_type>(*item);
      if (!value) return std::nullopt;
      out.push_back(*std::move(value));
    }
    return out;
  } else {
    if (tree.is_scalar() && tree.kind != Tree::Kind::kNull && tree.kind != Tree::Kind::kMissing)
      return tree.text;
    return std::nullopt;
  }
}

template <class T>
std::string show(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else if constexpr (std::is_floating_point_v<T>)
    return number_text(value);
  else if constexpr (IsVector<T>::value) {
    std::string out = "[";
    for (std::size_t i = 0; i < value.size(); ++i) {
      out += (i > 0 ? ", " : "") + show(static_cast<typename T::value_type>(value[i]));
    }
    return out + "]";
  } else
    return "'" + value + "'";
}

std::string found_text(const Tree& tree) {
  std::string out(kind_name(tree.kind));
  if (tree.is_scalar() && !tree.text.empty()) out += " '" + tree.text + "'";
  return out;
}

void mark_all_read(Tree& tree) {
  tree.was_read = true;
  for (const TreePtr& item : tree.list) mark_all_read(*item);
  for (const auto& [name, value] : tree.map) mark_all_read(*value);
}

/// Something in it was reported already, so that no further message about it helps.
bool holds_unresolved(const Tree& tree) {
  const auto inside = [](const TreePtr& item) { return holds_unresolved(*item); };
  return tree.unresolved || std::any_of(tree.list.begin(), tree.list.end(), inside) ||
         std::any_of(tree.map.begin(), tree.map.end(),
                     [&](const auto& item) { return inside(item.second); });
}

/// The mistake nearly every newcomer makes: `key=` or a trailing blank inside the key.
bool blank_in_key(std::string_view key) {
  return trim(key) != key;
}

}  // namespace

// ---------------------------------------------------------------- Node

Node::Node(TreePtr tree, std::shared_ptr<Problems> problems, std::string path)
    : tree_(std::move(tree)), problems_(std::move(problems)), path_(std::move(path)) {
  tree_->was_read = true;
}

Node Node::empty() {
  return {Tree::make_map(), std::make_shared<Problems>()};
}

Node Node::describe(std::shared_ptr<std::vector<std::unique_ptr<KeyDoc>>> docs) {
  Node node = empty();
  node.docs_ = std::move(docs);
  return node;
}

bool Node::is_number() const {
  return number_of(*tree_).has_value();
}

std::string Node::sub_path(std::string_view key) const {
  const std::string canonical(key.substr(0, key.find('|')));
  return path_.empty() ? canonical : path_ + "." + canonical;
}

TreePtr Node::lookup(std::string_view key) const {
  if (!tree_->is_map()) return nullptr;
  TreePtr found;
  std::string first;
  for (const std::string& name : split(key, '|')) {
    if (std::find(tree_->asked.begin(), tree_->asked.end(), name) == tree_->asked.end()) {
      tree_->asked.push_back(name);
    }
    TreePtr value = tree_->find(name);
    if (!value) continue;
    if (found && !(found->kind == Tree::Kind::kNull) && value->kind != Tree::Kind::kNull &&
        !value->was_read) {
      problems_->add(value->mark.str(), sub_path(name),
                     "given twice: '" + name + "' is another name of '" + first + "'");
      value->was_read = true;
    }
    if (!found || found->kind == Tree::Kind::kNull) {
      if (found) found->was_read = true;
      found = value;
      first = name;
    }
  }
  return found;
}

bool Node::has(std::string_view key) const {
  const TreePtr value = lookup(key);
  if (value && value->kind == Tree::Kind::kNull) value->was_read = true;
  return value && value->kind != Tree::Kind::kNull;
}

Node Node::child(std::string_view key) {
  TreePtr value = lookup(key);
  Node node(value ? value : Tree::null(tree_->mark), problems_, sub_path(key));
  node.docs_ = docs_;
  return node;
}

std::size_t Node::size() const {
  return tree_->is_list() ? tree_->list.size() : tree_->map.size();
}

Node Node::item(std::size_t index) {
  Node node(tree_->list.at(index), problems_, path_ + "." + std::to_string(index));
  node.docs_ = docs_;
  return node;
}

std::vector<std::string> Node::keys() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : tree_->map) out.push_back(name);
  return out;
}

KeyDoc* Node::document(std::string_view key, std::string type, std::string fallback,
                       bool required) {
  if (!docs_) return nullptr;
  auto doc = std::make_unique<KeyDoc>();
  doc->key = std::string(key.substr(0, key.find('|')));
  doc->type = std::move(type);
  doc->default_value = std::move(fallback);
  doc->required = required;
  docs_->push_back(std::move(doc));
  return docs_->back().get();
}

template <class T>
T Node::as() {
  tree_->was_read = true;
  if (docs_) return T{};
  if (holds_unresolved(*tree_)) {
    mark_all_read(*tree_);
    return T{};
  }
  if (tree_->kind == Tree::Kind::kMissing) {
    problem("no value given (\?\?\?), set it in the recipe or with " + path_ + "=…");
    return T{};
  }
  auto value = convert<T>(*tree_);
  if (!value) {
    const auto number = std::is_floating_point_v<T> ? number_of(*tree_) : std::nullopt;
    problem("expected " + type_name<T>() + (number ? " that is finite" : "") + ", found " +
            found_text(*tree_));
    return T{};
  }
  if constexpr (IsVector<T>::value) mark_all_read(*tree_);
  return *value;
}

template <class T>
Value<T> Node::get(std::string_view key) {
  KeyDoc* doc = document(key, type_name<T>(), "", true);
  if (docs_) return Value<T>(T{}, this, std::string(key), doc);
  if (!has(key)) {
    const TreePtr null = lookup(key);
    problems_->add(null ? null->mark.str() : where(), sub_path(key), "required, but not given");
    return Value<T>(T{}, nullptr, std::string(key), doc);
  }
  const bool reported = holds_unresolved(*lookup(key));
  const std::size_t before = problems_->items().size();
  T value = child(key).template as<T>();
  const bool good = !reported && problems_->items().size() == before;
  return Value<T>(std::move(value), good ? this : nullptr, std::string(key), doc);
}

template <class T>
Value<T> Node::get_or(std::string_view key, T fallback) {
  KeyDoc* doc = document(key, type_name<T>(), show(fallback), false);
  if (docs_ || !has(key)) return Value<T>(std::move(fallback), nullptr, std::string(key), doc);
  const bool reported = holds_unresolved(*lookup(key));
  const std::size_t before = problems_->items().size();
  T value = child(key).template as<T>();
  if (reported || problems_->items().size() != before)
    return Value<T>(std::move(fallback), nullptr, std::string(key), doc);
  return Value<T>(std::move(value), this, std::string(key), doc);
}

template <class T>
std::optional<T> Node::find(std::string_view key) {
  document(key, type_name<T>(), "null", false);
  if (docs_ || !has(key)) return std::nullopt;
  return child(key).template as<T>();
}

Component Node::as_component() {
  tree_->was_read = true;
  Component component;
  component.params = Node(Tree::make_map(tree_->mark), problems_, path_);
  component.params.docs_ = docs_;
  if (docs_ || tree_->unresolved) return component;
  if (tree_->kind == Tree::Kind::kMissing) {
    problem("no value given (\?\?\?)");
  } else if (is_string()) {
    component.name = tree_->text;
  } else if (is_map() && tree_->find("_target_")) {
    const std::string target = child("_target_").as<std::string>();
    component.name = target.substr(target.rfind('.') + 1);
    component.params = Node(tree_, problems_, path_);
  } else if (is_map() && tree_->map.size() == 1) {
    component.name = tree_->map.front().first;
    const TreePtr params = tree_->map.front().second;
    params->was_read = true;
    if (params->is_map()) {
      component.params = Node(params, problems_, path_ + "." + component.name);
    } else if (params->kind != Tree::Kind::kNull) {
      problems_->add(params->mark.str(), path_ + "." + component.name,
                     "parameters must be a map, found " + found_text(*params));
    }
  } else {
    std::string hint;
    if (is_map() && tree_->map.size() > 1 && tree_->map.front().second->kind == Tree::Kind::kNull) {
      hint = "; are its parameters indented too little? Write:\n      - " +
             tree_->map.front().first + ":";
      for (std::size_t i = 1; i < tree_->map.size(); ++i) {
        hint += "\n          " + tree_->map[i].first + ": " + tree_->map[i].second->text;
      }
    }
    problem("expected a name or {Name: {parameters}}, found " + found_text(*tree_) +
            (is_map() ? " of " + std::to_string(size()) + " keys" : "") + hint);
    read_all();
  }
  return component;
}

Component Node::component(std::string_view key) {
  document(key, "component", "", true);
  if (!docs_ && !has(key)) problems_->add(where(), sub_path(key), "required, but not given");
  if (!docs_ && !has(key)) return {.name = "", .params = empty()};
  return child(key).as_component();
}

std::optional<Component> Node::find_component(std::string_view key) {
  document(key, "component", "null", false);
  if (docs_ || !has(key)) return std::nullopt;
  return child(key).as_component();
}

std::vector<Component> Node::components(std::string_view key) {
  document(key, "list of components", "[]", false);
  std::vector<Component> out;
  if (docs_ || !has(key)) return out;
  Node list = child(key);
  if (!list.is_list()) {
    out.push_back(list.as_component());
    return out;
  }
  for (std::size_t i = 0; i < list.size(); ++i) out.push_back(list.item(i).as_component());
  return out;
}

void Node::read_all() {
  mark_all_read(*tree_);
}

void Node::problem(std::string text) {
  problems_->add(where(), path_, std::move(text));
}

void Node::problem(std::string_view key, std::string text) {
  const TreePtr value = lookup(key);
  problems_->add(value ? value->mark.str() : where(), sub_path(key), std::move(text));
}

void Node::report_unread() {
  for (const auto& [key, value] : tree_->map) {
    const std::string path = path_.empty() ? key : path_ + "." + key;
    if (!value->was_read) {
      const std::string blank = blank_in_key(key) ? " (the key has a blank at its border)" : "";
      problems_->add(value->mark.str(), path,
                     "unknown key" + blank + did_you_mean(key, tree_->asked));
    } else {
      Node(value, problems_, path).report_unread();
    }
  }
  for (std::size_t i = 0; i < tree_->list.size(); ++i) {
    if (tree_->list[i]->was_read) {
      Node(tree_->list[i], problems_, path_ + "." + std::to_string(i)).report_unread();
    }
  }
}

// --------------------------------------------------------------- Value

template <class T>
void Value<T>::fail(const std::string& text) {
  if (node_) node_->problem(key_, text);
}

template <class T>
Value<T>& Value<T>::in(double low, double high) {
  const std::string bounds = bounds_text(low, high);
  if (doc_) doc_->bounds = bounds;
  const auto check = [&](double number) {
    if (!(number >= low && number <= high))
      fail("must be " + bounds + ", found " + plain_number(number));
  };
  if constexpr (std::is_arithmetic_v<T>) {
    check(static_cast<double>(value_));
  } else if constexpr (std::is_same_v<T, std::vector<double>> ||
                       std::is_same_v<T, std::vector<int>> ||
                       std::is_same_v<T, std::vector<std::int64_t>>) {
    for (const auto item : value_) check(static_cast<double>(item));
  }
  return *this;
}

template <class T>
Value<T>& Value<T>::above(double low) {
  if (doc_) doc_->bounds = "above " + plain_number(low);
  if constexpr (std::is_arithmetic_v<T>) {
    if (!(static_cast<double>(value_) > low)) {
      fail("must be above " + plain_number(low) + ", found " +
           plain_number(static_cast<double>(value_)));
    }
  }
  return *this;
}

template <class T>
Value<T>& Value<T>::one_of(std::vector<std::string> names) {
  if (doc_) doc_->bounds = "one of " + join(names);
  if constexpr (std::is_same_v<T, std::string>) {
    if (std::find(names.begin(), names.end(), value_) == names.end()) {
      fail("must be one of " + join(names) + ", found '" + value_ + "'" +
           did_you_mean(value_, names));
    }
  }
  return *this;
}

#define SGTRAIN_NODE_TYPE(T)                                 \
  template class Value<T>;                                   \
  template Value<T> Node::get<T>(std::string_view);          \
  template Value<T> Node::get_or<T>(std::string_view, T);    \
  template std::optional<T> Node::find<T>(std::string_view); \
  template T Node::as<T>();
SGTRAIN_NODE_TYPE(bool)
SGTRAIN_NODE_TYPE(int)
SGTRAIN_NODE_TYPE(std::int64_t)
SGTRAIN_NODE_TYPE(double)
SGTRAIN_NODE_TYPE(std::string)
SGTRAIN_NODE_TYPE(std::vector<bool>)
SGTRAIN_NODE_TYPE(std::vector<int>)
SGTRAIN_NODE_TYPE(std::vector<std::int64_t>)
SGTRAIN_NODE_TYPE(std::vector<double>)
SGTRAIN_NODE_TYPE(std::vector<std::string>)
SGTRAIN_NODE_TYPE(std::vector<std::vector<double>>)
SGTRAIN_NODE_TYPE(std::vector<std::vector<std::string>>)
#undef SGTRAIN_NODE_TYPE

}  // namespace sgtrain::core
