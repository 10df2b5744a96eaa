#include "recipe/overrides.h"

#include <algorithm>
#include <charconv>
#include <functional>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml_writer.h"
#include "recipe/merge.h"
#include "recipe/search_path.h"
#include "recipe/value_grammar.h"

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

constexpr std::size_t kMaxRuns = 10'000;

std::vector<std::string> path_of(std::string_view key) {
  return core::split(key, '.');
}

/// What is wrong with a text that is no override at all; empty when it is one.
std::string shape_problem(std::string_view text, std::string_view body, bool deletes) {
  const auto equal = body.find('=');
  if (equal == std::string_view::npos && !deletes) {
    const auto colon = body.find(':');
    if (colon != std::string_view::npos && colon > 0) {
      return "an override is written key=value, did you mean '" +
             std::string(core::trim(body.substr(0, colon))) + "=" +
             std::string(core::trim(body.substr(colon + 1))) + "'?";
    }
    return "an override is written key=value (or ~key to delete one)";
  }
  const std::string_view key = body.substr(0, equal);
  if (key.empty()) return "the key before '=' is missing";
  if (core::trim(key) != key || key.find_first_of(" \t") != std::string_view::npos) {
    return "the key '" + std::string(key) + "' holds a blank, write " +
           (text[0] == '+' || text[0] == '~' ? std::string(1, text[0]) : std::string()) +
           std::string(core::trim(key)) + "=" +
           std::string(core::trim(body.substr(std::min(equal, body.size() - 1) + 1)));
  }
  if (key.starts_with("--")) return "options are written --name value, overrides key=value";
  for (const std::string& part : path_of(split_package(key).first)) {
    if (part.empty())
      return "the key '" + std::string(key) + "' has an empty part between its dots";
  }
  return {};
}

bool is_index(const std::string& key) {
  return !key.empty() &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Existing paths near to `path`: every part that does not exist is replaced by names that resemble
/// it. `free_keys` may be at the top too.
std::vector<std::vector<std::string>> corrected(const TreePtr& root,
                                                const std::vector<std::string>& path,
                                                std::span<const std::string> free_keys,
                                                std::size_t depth = 0) {
  if (depth == path.size()) return {{}};
  std::vector<std::string> candidates;
  if (value_at(root, {path[depth]})) {
    candidates = {path[depth]};
  } else {
    std::vector<std::string> siblings;
    for (const auto& [key, value] : root->map) siblings.push_back(key);
    if (depth == 0) siblings.insert(siblings.end(), free_keys.begin(), free_keys.end());
    std::sort(siblings.begin(), siblings.end());
    siblings.erase(std::unique(siblings.begin(), siblings.end()), siblings.end());
    candidates = core::nearest(path[depth], siblings);
  }
  std::vector<std::vector<std::string>> out;
  for (const std::string& candidate : candidates) {
    const TreePtr next = value_at(root, {candidate});
    if (!next && depth + 1 < path.size()) continue;
    for (auto& rest : next ? corrected(next, path, free_keys, depth + 1)
                           : std::vector<std::vector<std::string>>{{}}) {
      rest.insert(rest.begin(), candidate);
      out.push_back(std::move(rest));
    }
  }
  return out;
}

/// Keys that end like the mistyped one, or resemble it where it breaks off.
std::string suggestion(const TreePtr& root, const std::vector<std::string>& path,
                       std::span<const std::string> free_keys) {
  std::vector<std::string> all;
  std::vector<std::string> here;
  const std::function<void(const Tree&)> walk = [&](const Tree& tree) {
    for (const auto& [key, value] : tree.map) {
      here.push_back(key);
      all.push_back(core::join(here, "."));
      walk(*value);
      here.pop_back();
    }
  };
  walk(*root);
  const std::string tail = "." + core::join(path, ".");
  std::vector<std::string> found;
  for (const std::string& candidate : all) {
    if (candidate.ends_with(tail)) found.push_back(candidate);
  }
  if (found.empty()) {  // the level where the path breaks off
    for (std::vector<std::string>& right : corrected(root, path, free_keys)) {
      found.push_back(core::join(right, "."));
    }
  }
  if (found.empty()) {
    const std::string last = path.back();
    std::vector<std::string> names;
    for (const std::string& candidate : all)
      names.push_back(candidate.substr(candidate.rfind('.') + 1));
    for (const std::string& near : core::nearest(last, names, 1)) {
      for (const std::string& candidate : all) {
        if (found.size() < 3 && (candidate == near || candidate.ends_with("." + near)))
          found.push_back(candidate);
      }
    }
  }
  if (found.empty()) return {};
  found.resize(std::min<std::size_t>(found.size(), 3));
  return ", did you mean " + core::join(found, " or ") + "?";
}

class Applier {
 public:
  Applier(const TreePtr& root, std::span<const std::string> free_keys, core::Problems& problems)
      : root_(root), free_keys_(free_keys), problems_(problems) {}

  void apply(const Override& given) {
    if (given.package) {
      return fail(given, "'" + given.key + "' is no group of recipes, so '@" + *given.package +
                             "' says nothing");
    }
    const std::vector<std::string> path = path_of(given.key);
    const TreePtr old = value_at(root_, path);
    switch (given.kind) {
      case Override::Kind::kDelete:
        return remove(given, path, old);
      case Override::Kind::kAdd:
        if (old && old->kind != Tree::Kind::kNull && given.value->is_scalar()) {
          return fail(given, "the key is there already (" + old->mark.str() + "), write " +
                                 given.key + "=… to change it, or ++" + given.key +
                                 "=… for either");
        }
        return set(given, path, true);
      case Override::Kind::kForce:
        return set(given, path, true);
      case Override::Kind::kSet: {
        const bool is_free =
            std::find(free_keys_.begin(), free_keys_.end(), path.front()) != free_keys_.end();
        return set(given, path, is_free);
      }
    }
  }

 private:
  void fail(const Override& given, const std::string& what) {
    problems_.add("command line", given.text, what);
  }

  void remove(const Override& given, const std::vector<std::string>& path, const TreePtr& old) {
    if (!old)
      return fail(given, "there is no key '" + given.key + "' to delete" +
                             suggestion(root_, path, free_keys_));
    if (given.value && !same_value(*given.value, *old)) {
      return fail(given, "not deleted, since the value is " + core::write_yaml_inline(*old) +
                             " and not " + core::write_yaml_inline(*given.value));
    }
    const TreePtr parent = value_at(root_, {path.begin(), path.end() - 1});
    if (parent->is_map()) {
      parent->erase(path.back());
    } else {
      parent->list.erase(std::find(parent->list.begin(), parent->list.end(), old));
    }
  }

  static bool same_value(const Tree& a, const Tree& b) {
    const auto number = [](const Tree& t) {
      return t.kind == Tree::Kind::kInt ? static_cast<double>(t.integer) : t.real;
    };
    const auto numeric = [](const Tree& t) {
      return t.kind == Tree::Kind::kInt || t.kind == Tree::Kind::kFloat;
    };
    return core::equal(a, b) || (numeric(a) && numeric(b) && number(a) == number(b));
  }

  void set(const Override& given, const std::vector<std::string>& path, bool create) {
    TreePtr parent = root_;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      TreePtr next = value_at(parent, {path[i]});
      if (parent->is_map() && (!next || (create && next->is_scalar()))) {
        if (!create) return unknown(given, path);
        next = Tree::make_map(command_line_mark());
        parent->set(path[i], next);
      }
      if (!next || next->is_scalar()) return unknown(given, path);
      parent = next;
    }
    const std::string& key = path.back();
    if (parent->is_list()) {
      if (!is_index(key) || !value_at(parent, {key})) {
        return fail(given, "the list has " + std::to_string(parent->list.size()) +
                               " items, numbered from 0: there is no item '" + key + "'");
      }
      TreePtr& item = parent->list[std::stoul(key)];
      item = merged(item, given.value);
      return;
    }
    const TreePtr old = parent->find(key);
    if (!old && !create) return unknown(given, path);
    if (old && !create) {
      if (const auto extra = new_key(*old, *given.value); !extra.empty()) {
        std::vector<std::string> longer = path;
        longer.insert(longer.end(), extra.begin(), extra.end());
        return unknown(given, longer);
      }
    }
    parent->set(key, merged(old, given.value));
  }

  /// A map is merged into a map, as a file's would be; anything else replaces.
  TreePtr merged(const TreePtr& old, const TreePtr& value) const {
    if (!old || !old->is_map() || !value->is_map()) return value->clone();
    merge_at(old, {}, *value, problems_);
    return old;
  }

  /// Path of a key that a map override would add to the map it is merged into; empty when none.
  static std::vector<std::string> new_key(const Tree& old, const Tree& value) {
    if (!old.is_map() || !value.is_map()) return {};
    for (const auto& [key, item] : value.map) {
      const TreePtr there = old.find(key);
      if (!there) return {key};
      if (auto deeper = new_key(*there, *item); !deeper.empty()) {
        deeper.insert(deeper.begin(), key);
        return deeper;
      }
    }
    return {};
  }

  void unknown(const Override& given, const std::vector<std::string>& path) {
    fail(given, "there is no key '" + core::join(path, ".") + "'" +
                    suggestion(root_, path, free_keys_) + " (to add it, write +" + given.text +
                    ")");
  }

  const TreePtr& root_;
  std::span<const std::string> free_keys_;
  core::Problems& problems_;
};

}  // namespace

core::Mark command_line_mark() {
  static const auto name = std::make_shared<const std::string>("command line");
  return {name, 0};
}

std::optional<Override> parse_override(std::string_view text, core::Problems& problems) {
  Override out;
  out.text = std::string(text);
  std::string_view body = text;
  if (body.starts_with("++")) {
    out.kind = Override::Kind::kForce;
    body.remove_prefix(2);
  } else if (body.starts_with("+")) {
    out.kind = Override::Kind::kAdd;
    body.remove_prefix(1);
  } else if (body.starts_with("~")) {
    out.kind = Override::Kind::kDelete;
    body.remove_prefix(1);
  }
  const auto bad = [&](const std::string& what) {
    problems.add("command line", out.text, what);
    return std::nullopt;
  };
  if (const std::string what = shape_problem(text, body, out.kind == Override::Kind::kDelete);
      !what.empty()) {
    return bad(what);
  }
  const auto equal = body.find('=');
  std::tie(out.key, out.package) = split_package(body.substr(0, equal));
  if (equal == std::string_view::npos) return out;
  try {
    const std::string_view value = body.substr(equal + 1);
    if (split_arguments(value).size() > 1) {
      return bad(
          "commas make a sweep of several runs, which needs -m; write a list as [a,b], a text as "
          "'a,b'");
    }
    out.value = parse_value(value, command_line_mark());
  } catch (const core::InputError& error) {
    return bad(error.what());
  }
  return out;
}

void apply_overrides(const TreePtr& root, std::span<const Override> overrides,
                     std::span<const std::string> free_keys, core::Problems& problems) {
  Applier applier(root, free_keys, problems);
  for (const Override& given : overrides) applier.apply(given);
}

std::vector<std::vector<std::string>> sweep(std::span<const std::string> overrides) {
  std::vector<std::vector<std::string>> runs = {{}};
  for (const std::string& text : overrides) {
    const auto equal = text.find('=');
    std::vector<std::string> choices = {text};
    if (equal != std::string::npos && !text.starts_with("~")) {
      const std::string_view value = std::string_view(text).substr(equal + 1);
      const auto values = parse_alternatives(value, command_line_mark());
      const auto parts = split_arguments(value);
      if (values.size() > 1 || parts.size() > 1) {
        choices.clear();
        for (std::size_t i = 0; i < values.size(); ++i) {
          // Written as typed where possible: a value and its text may differ (0.10, quotes).
          const std::string typed = parts.size() == values.size()
                                        ? std::string(core::trim(parts[i]))
                                        : core::write_yaml_inline(*values[i]);
          choices.push_back(text.substr(0, equal + 1) + typed);
        }
      }
    }
    if (runs.size() * choices.size() > kMaxRuns) {
      throw core::InputError("the sweep has more than " + std::to_string(kMaxRuns) + " runs",
                             "command line", "give fewer alternatives");
    }
    std::vector<std::vector<std::string>> longer;
    for (const auto& run : runs) {
      for (const std::string& choice : choices) {
        longer.push_back(run);
        longer.back().push_back(choice);
      }
    }
    runs = std::move(longer);
  }
  return runs;
}

}  // namespace sgtrain::recipe
