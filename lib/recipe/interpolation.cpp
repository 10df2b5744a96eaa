#include "recipe/interpolation.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml_writer.h"
#include "recipe/resolvers.h"
#include "recipe/value_grammar.h"

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

constexpr std::size_t kMaxCopied = 200'000;  // values copied by interpolations, in all
constexpr std::size_t kMaxText = 1u << 20;   // bytes of one text
constexpr std::size_t kMaxDepth = 100;       // interpolations that wait for each other

std::string dotted(const std::vector<std::string>& path) {
  return core::join(path, ".");
}

bool may_interpolate(const Tree& tree) {
  return tree.kind == Tree::Kind::kString && tree.text.find("${") != std::string::npos;
}

/// Item of a list by its number, nullptr when the key is none.
TreePtr list_item(const Tree& list, const std::string& key) {
  std::int64_t index = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, index);
  const auto size = static_cast<std::int64_t>(list.list.size());
  if (error != std::errc{} || stop != end) return nullptr;
  if (index < 0) index += size;
  return index >= 0 && index < size ? list.list[static_cast<std::size_t>(index)] : nullptr;
}

/// Length of a resolver's name when the text starts with one ("oc.env:…"), else 0.
std::size_t resolver_name(std::string_view text) {
  std::size_t end = 0;
  bool start = true;
  for (; end < text.size(); ++end) {
    const char c = text[end];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (letter || (!start && c >= '0' && c <= '9'))
      start = false;
    else if (c == '.' && !start)
      start = true;
    else
      break;
  }
  return end < text.size() && text[end] == ':' && !start ? end : 0;
}

/// "a[b].c" → a, b, c. nullopt when brackets do not match or a part is empty.
std::optional<std::vector<std::string>> split_path(std::string_view text) {
  std::vector<std::string> parts;
  std::size_t i = 0;
  bool need = true;  // a part must follow
  while (i < text.size()) {
    if (text[i] == '[') {
      const std::size_t end = text.find(']', i);
      if (end == std::string_view::npos || end == i + 1) return std::nullopt;
      std::string_view key = text.substr(i + 1, end - i - 1);
      if (key.size() >= 2 && (key.front() == '\'' || key.front() == '"') &&
          key.back() == key.front()) {
        key = key.substr(1, key.size() - 2);
      }
      parts.emplace_back(key);
      i = end + 1;
      need = false;
    } else if (text[i] == '.') {
      if (need) return std::nullopt;
      ++i;
      need = true;
    } else {
      if (!need && !parts.empty()) return std::nullopt;
      const std::size_t end = std::min(text.find_first_of(".[", i), text.size());
      parts.emplace_back(text.substr(i, end - i));
      i = end;
      need = false;
    }
  }
  if (need) return std::nullopt;
  return parts;
}

/// Dotted paths of the tree whose last keys are `keys`.
std::vector<std::string> paths_ending_with(const Tree& root, const std::vector<std::string>& keys) {
  std::vector<std::string> found;
  std::vector<std::string> path;
  const std::function<void(const Tree&)> walk = [&](const Tree& tree) {
    if (path.size() > keys.size() && std::equal(keys.rbegin(), keys.rend(), path.rbegin())) {
      found.push_back(dotted(path));
    }
    for (const auto& [key, value] : tree.map) {
      path.push_back(key);
      walk(*value);
      path.pop_back();
    }
  };
  walk(root);
  return found;
}

}  // namespace

struct Interpolator::Failure {
  Fault fault;
  std::string text;        // empty: it was reported already, or will be at the missing value
  TreePtr around = {};     // kUnknownKey: the map that lacks the key,
  std::size_t failed = 0;  // and which key of the path it is
};

struct Interpolator::Target {
  TreePtr node;
  Path path;
};

Interpolator::Interpolator(TreePtr root, core::Problems& problems)
    : root_(std::move(root)), problems_(problems) {}

void Interpolator::resolve_all() {
  Path path;
  resolve(root_, path);
}

TreePtr Interpolator::resolve_at(const std::string& where) {
  TreePtr node = root_;
  Path path;
  for (const std::string& key : core::split(where, '.')) {
    resolve_text(node, path);
    node = node->is_map() ? node->find(key) : node->is_list() ? list_item(*node, key) : nullptr;
    if (!node) return nullptr;
    path.push_back(key);
  }
  resolve(node, path);
  return node->unresolved ? nullptr : node;
}

void Interpolator::resolve(const TreePtr& node, Path& path) {
  const auto known = states_.find(node.get());
  if (known != states_.end()) {
    if (known->second == State::kDone) return;
    std::string cycle;
    const std::string here = dotted(path);
    bool inside = false;
    for (const std::string& step : chain_) {
      inside = inside || step == here || step.starts_with(here + ".");
      if (inside) cycle += step + " -> ";
    }
    throw Failure{Fault::kCycle, "the interpolation needs itself: " + cycle + here};
  }
  if (node->is_scalar()) {
    resolve_text(node, path);
    return;
  }
  states_[node.get()] = State::kVisiting;
  for (std::size_t i = 0; i < node->list.size(); ++i) {
    path.push_back(std::to_string(i));
    resolve(node->list[i], path);
    path.pop_back();
  }
  for (const auto& [key, value] : node->map) {
    path.push_back(key);
    resolve(value, path);
    path.pop_back();
  }
  states_[node.get()] = State::kDone;
}

void Interpolator::resolve_text(const TreePtr& node, Path& path) {
  if (!may_interpolate(*node) || node->unresolved || states_.contains(node.get())) return;
  states_[node.get()] = State::kVisiting;
  chain_.push_back(dotted(path));
  try {
    const TreePtr value = evaluate(node->text, *node, path);
    const bool was_read = node->was_read;
    *node = *value;
    node->was_read = was_read;
    const std::function<void(const Tree&)> done = [&](const Tree& tree) {
      states_[&tree] = State::kDone;
      for (const TreePtr& item : tree.list) done(*item);
      for (const auto& [key, item] : tree.map) done(*item);
    };
    done(*node);
  } catch (const Failure& failure) {
    node->unresolved = true;
    faults_[dotted(path)] = failure.fault;
    if (!failure.text.empty()) problems_.add(node->mark.str(), dotted(path), failure.text);
  }
  chain_.pop_back();
  states_[node.get()] = State::kDone;
}

TreePtr Interpolator::evaluate(std::string_view text, const Tree& node, const Path& path) {
  struct Depth {  // counted down also when a failure leaves
    explicit Depth(std::size_t& count) : count(++count) {}
    ~Depth() { --count; }
    std::size_t& count;
  } depth(depth_);
  if (depth_ > kMaxDepth) {
    throw Failure{Fault::kTooLarge,
                  "more than " + std::to_string(kMaxDepth) + " interpolations wait for each other"};
  }
  std::string out;
  TreePtr only;
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t slashes = std::min(text.find_first_not_of('\\', i), text.size()) - i;
    if (text.substr(i + slashes, 2) != "${") {
      const std::size_t length = std::max<std::size_t>(slashes, 1);
      out += text.substr(i, length);
      i += length;
      continue;
    }
    out.append(slashes / 2, '\\');
    i += slashes;
    if (slashes % 2 == 1) {  // \${ is a literal ${
      out += "${";
      i += 2;
      ++pieces;
      continue;
    }
    const std::size_t end = end_of_interpolation(text, i);
    if (end == std::string_view::npos) {
      throw Failure{Fault::kSyntax, "'${' is not closed by '}' in '" +
                                        std::string(text.substr(0, 200)) +
                                        "' (write \\${ for a literal one)"};
    }
    const TreePtr value = interpolation(text.substr(i + 2, end - i - 3), node, path);
    if (i == 0 && end == text.size())
      only = value;
    else
      out += python_text(*value);
    if (out.size() > kMaxText) {
      throw Failure{Fault::kTooLarge,
                    "the text grows beyond " + std::to_string(kMaxText) + " bytes"};
    }
    i = end;
  }
  return only ? only : Tree::of(std::move(out), node.mark);
}

TreePtr Interpolator::interpolation(std::string_view inner, const Tree& node, const Path& path) {
  const std::string_view trimmed = core::trim(inner);
  if (const std::size_t length = resolver_name(trimmed)) {
    return call(trimmed.substr(0, length), trimmed.substr(length + 1), node, path);
  }
  if (trimmed.find("${") == std::string_view::npos) {
    return reference(std::string(trimmed), node, path);
  }
  return reference(python_text(*evaluate(trimmed, node, path)), node, path);
}

void Interpolator::resolve_argument(const TreePtr& argument, const Tree& node, const Path& path) {
  if (may_interpolate(*argument)) *argument = *evaluate(argument->text, node, path);
  for (const TreePtr& item : argument->list) resolve_argument(item, node, path);
  for (const auto& [key, item] : argument->map) resolve_argument(item, node, path);
}

TreePtr Interpolator::call(std::string_view name, std::string_view text, const Tree& node,
                           const Path& path) {
  const Resolver* resolver = find_resolver(name);
  const bool of_tree = name == "oc.select" || name == "oc.deprecated" || name == "oc.dict.keys" ||
                       name == "oc.dict.values";
  if (!resolver && !of_tree) {
    const auto names = resolver_names();
    throw Failure{Fault::kResolver, "unknown resolver '" + std::string(name) + "'" +
                                        core::did_you_mean(name, names) +
                                        " (known: " + core::join(names) + ")"};
  }
  const std::string call_text = "${" + std::string(name) + ":" + std::string(text) + "}";
  try {
    std::vector<TreePtr> arguments;
    if (!core::trim(text).empty()) {
      for (const std::string& part : split_arguments(text)) {
        arguments.push_back(parse_value(part, node.mark));
        resolve_argument(arguments.back(), node, path);
      }
    }
    if (of_tree) return tree_call(name, arguments, node, path);
    return copy(*(*resolver)(arguments, node.mark));
  } catch (const ResolverError& error) {
    throw Failure{Fault::kResolver,
                  "resolver '" + std::string(name) + "' " + error.what() + " in " + call_text};
  } catch (const core::InputError& error) {
    throw Failure{Fault::kSyntax, std::string(error.what()) + "\n    in " + call_text};
  }
}

TreePtr Interpolator::tree_call(std::string_view name, const std::vector<TreePtr>& arguments,
                                const Tree& node, const Path& path) {
  const bool takes_second = name == "oc.select" || name == "oc.deprecated";
  if (arguments.empty() || arguments.size() > (takes_second ? 2u : 1u)) {
    throw ResolverError("takes the path of a key" +
                        std::string(name == "oc.select" ? " and a default" : ""));
  }
  const std::string where = arguments[0]->text;
  if (name == "oc.select") {
    try {
      return reference(where, node, path);
    } catch (const Failure& failure) {
      const bool absent = failure.fault == Fault::kUnknownKey || failure.fault == Fault::kMissing;
      if (!absent) throw;
      return arguments.size() > 1 ? arguments[1] : Tree::null(node.mark);
    }
  }
  const TreePtr value = reference(where, node, path);
  if (name == "oc.deprecated") {
    problems_.note(node.mark.str() + ": " + dotted(path) + " is deprecated, use " + where);
    return value;
  }
  if (!value->is_map()) throw ResolverError("takes the path of a map");
  TreePtr out = Tree::make_list(node.mark);
  for (const auto& [key, item] : value->map) {
    out->list.push_back(name == "oc.dict.keys" ? Tree::of(key, node.mark) : item);
  }
  return out;
}

TreePtr Interpolator::reference(const std::string& text, const Tree& node, const Path& path) {
  Target target;
  try {
    target = select(text, path);
  } catch (Failure& failure) {
    if (failure.fault == Fault::kUnknownKey && failure.around) {
      const std::size_t dots = std::min(text.find_first_not_of('.'), text.size());
      const auto keys = split_path(std::string_view(text).substr(dots));
      failure.text = unknown_key(*keys, failure.failed, *failure.around, node, path, text);
    }
    throw;
  }
  resolve(target.node, target.path);
  if (target.node->unresolved || target.node->kind == Tree::Kind::kMissing) {
    mark_used(target.path);  // its own mistake is reported once, as that
    const auto fault = faults_.find(dotted(target.path));
    throw Failure{fault == faults_.end() ? Fault::kMissing : fault->second, {}};
  }
  mark_used(target.path);
  return copy(*target.node);
}

Interpolator::Target Interpolator::select(const std::string& text, const Path& path) {
  const std::size_t dots = std::min(text.find_first_not_of('.'), text.size());
  const auto keys = split_path(std::string_view(text).substr(dots));
  if (!keys) {
    throw Failure{Fault::kSyntax,
                  "'${" + text + "}' is no path of keys (write ${a.b} or ${.sibling})"};
  }
  if (dots > path.size()) {
    throw Failure{Fault::kSyntax, "'${" + text + "}' goes above the top of the recipe"};
  }
  Target here{root_, {}};
  Path all;
  if (dots > 0) all.assign(path.begin(), path.end() - static_cast<std::ptrdiff_t>(dots));
  const std::size_t base = all.size();
  all.insert(all.end(), keys->begin(), keys->end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (may_interpolate(*here.node) && !here.node->unresolved) resolve(here.node, here.path);
    if (here.node->unresolved || here.node->kind == Tree::Kind::kMissing) {
      const auto fault = faults_.find(dotted(here.path));
      throw Failure{fault == faults_.end() ? Fault::kMissing : fault->second, {}};
    }
    const TreePtr next = here.node->is_map()    ? here.node->find(all[i])
                         : here.node->is_list() ? list_item(*here.node, all[i])
                                                : nullptr;
    if (!next) {
      throw Failure{Fault::kUnknownKey, {}, here.node, i < base ? 0 : i - base};
    }
    here.node = next;
    here.path.push_back(all[i]);
  }
  return here;
}

std::string Interpolator::unknown_key(const Path& keys, std::size_t failed, const Tree& where,
                                      const Tree& node, const Path& path,
                                      const std::string& text) const {
  const std::string whole = "${" + text + "}";
  std::string message = "the interpolation " + whole + " finds no key '" + keys[failed] + "'";
  if (failed > 0) {
    message += " in '" +
               dotted(Path(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(failed))) + "'";
  }
  std::vector<std::string> candidates = paths_ending_with(*root_, keys);
  std::string fixed = candidates.empty() ? std::string() : candidates.front();
  if (fixed.empty()) {
    std::vector<std::string> known;
    for (const auto& [key, value] : where.map) known.push_back(key);
    const auto near = core::nearest(keys[failed], known);
    if (near.empty()) {
      return message + (known.empty() ? "" : " (there are: " + core::join(known) + ")");
    }
    Path right = keys;
    right[failed] = near.front();
    const std::string prefix(std::min(text.find_first_not_of('.'), text.size()), '.');
    fixed = prefix + dotted(right);
  }
  std::string line = node.text;
  if (const auto at = line.find(whole); at != std::string::npos) {
    line.replace(at, whole.size(), "${" + fixed + "}");
    const bool in_list = path.empty() || std::all_of(path.back().begin(), path.back().end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    return message + ", write: " + (in_list ? "- " : path.back() + ": ") + line;
  }
  return message + ", did you mean ${" + fixed + "}?";
}

TreePtr Interpolator::copy(const Tree& tree) {
  const std::function<void(const Tree&)> count = [&](const Tree& part) {
    if (++copied_ > kMaxCopied) {
      throw Failure{Fault::kTooLarge, "interpolations copy more than " +
                                          std::to_string(kMaxCopied) +
                                          " values: this is no recipe"};
    }
    for (const TreePtr& item : part.list) count(*item);
    for (const auto& [key, item] : part.map) count(*item);
  };
  count(tree);
  return tree.clone();
}

void Interpolator::mark_used(const Path& path) {
  TreePtr node = root_;
  for (const std::string& key : path) {
    node = node->is_map() ? node->find(key) : list_item(*node, key);
    if (!node) return;
    node->was_read = true;
  }
  const std::function<void(Tree&)> below = [&](Tree& tree) {
    tree.was_read = true;
    for (const TreePtr& item : tree.list) below(*item);
    for (const auto& [key, item] : tree.map) below(*item);
  };
  below(*node);
  used_.insert(dotted(path));
}

bool is_variable(const core::Tree& tree, const std::string& key) {
  if (tree.kind == core::Tree::Kind::kString) {
    const std::string start = "${" + key;
    for (auto at = tree.text.find(start); at != std::string::npos;
         at = tree.text.find(start, at + 1)) {
      const std::size_t next = at + start.size();
      if (next < tree.text.size() &&
          std::string_view("}.[").find(tree.text[next]) != std::string_view::npos) {
        return true;
      }
    }
  }
  const auto inside = [&](const core::TreePtr& item) { return is_variable(*item, key); };
  return std::any_of(tree.list.begin(), tree.list.end(), inside) ||
         std::any_of(tree.map.begin(), tree.map.end(),
                     [&](const auto& item) { return inside(item.second); });
}

}  // namespace sgtrain::recipe
