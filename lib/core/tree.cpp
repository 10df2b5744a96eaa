#include "core/tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/text.h"

namespace sgtrain::core {

std::string Mark::str() const {
  if (!file) return {};
  return line > 0 ? *file + ":" + std::to_string(line) : *file;
}

std::string_view kind_name(Tree::Kind kind) {
  switch (kind) {
    case Tree::Kind::kNull:
      return "nothing";
    case Tree::Kind::kBool:
      return "a boolean";
    case Tree::Kind::kInt:
      return "an integer";
    case Tree::Kind::kFloat:
      return "a number";
    case Tree::Kind::kString:
      return "a text";
    case Tree::Kind::kList:
      return "a list";
    case Tree::Kind::kMap:
      return "a map";
    case Tree::Kind::kMissing:
      return "???";
  }
  return "?";
}

namespace {
TreePtr make(Tree::Kind kind, Mark mark) {
  auto tree = std::make_shared<Tree>();
  tree->kind = kind;
  tree->mark = std::move(mark);
  return tree;
}
}  // namespace

TreePtr Tree::null(Mark mark) {
  return make(Kind::kNull, std::move(mark));
}
TreePtr Tree::make_list(Mark mark) {
  return make(Kind::kList, std::move(mark));
}
TreePtr Tree::make_map(Mark mark) {
  return make(Kind::kMap, std::move(mark));
}
TreePtr Tree::of(bool value, Mark mark) {
  auto tree = make(Kind::kBool, std::move(mark));
  tree->boolean = value;
  tree->text = value ? "true" : "false";
  return tree;
}
TreePtr Tree::of(std::int64_t value, Mark mark) {
  auto tree = make(Kind::kInt, std::move(mark));
  tree->integer = value;
  tree->text = std::to_string(value);
  return tree;
}
TreePtr Tree::of(double value, Mark mark) {
  auto tree = make(Kind::kFloat, std::move(mark));
  tree->real = value;
  tree->text = number_text(value);
  return tree;
}
TreePtr Tree::of(std::string value, Mark mark) {
  auto tree = make(Kind::kString, std::move(mark));
  tree->text = std::move(value);
  return tree;
}
TreePtr Tree::of(const char* value, Mark mark) {
  return of(std::string(value), std::move(mark));
}

TreePtr Tree::find(std::string_view key) const {
  for (const auto& [name, value] : map) {
    if (name == key) return value;
  }
  return nullptr;
}

TreePtr Tree::find_path(std::string_view dotted) const {
  const Tree* here = this;
  TreePtr found;
  for (const std::string& part : split(dotted, '.')) {
    if (here->is_map()) {
      found = here->find(part);
    } else if (here->is_list()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      const bool valid =
          error == std::errc{} && end == part.data() + part.size() && index < here->list.size();
      found = valid ? here->list[index] : nullptr;
    } else {
      return nullptr;
    }
    if (!found) return nullptr;
    here = found.get();
  }
  return found;
}

void Tree::set(std::string_view key, TreePtr value) {
  for (auto& [name, old] : map) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  map.emplace_back(key, std::move(value));
}

bool Tree::erase(std::string_view key) {
  return std::erase_if(map, [&](const auto& item) { return item.first == key; }) > 0;
}

TreePtr Tree::clone() const {
  auto copy = std::make_shared<Tree>(*this);
  copy->was_read = false;
  copy->asked.clear();
  for (TreePtr& item : copy->list) item = item->clone();
  for (auto& [name, value] : copy->map) value = value->clone();
  return copy;
}

bool equal(const Tree& a, const Tree& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Tree::Kind::kNull:
    case Tree::Kind::kMissing:
      return true;
    case Tree::Kind::kBool:
      return a.boolean == b.boolean;
    case Tree::Kind::kInt:
      return a.integer == b.integer;
    case Tree::Kind::kFloat:
      return a.real == b.real || (std::isnan(a.real) && std::isnan(b.real));
    case Tree::Kind::kString:
      return a.text == b.text;
    case Tree::Kind::kList:
      return std::equal(a.list.begin(), a.list.end(), b.list.begin(), b.list.end(),
                        [](const TreePtr& x, const TreePtr& y) { return equal(*x, *y); });
    case Tree::Kind::kMap:
      return std::equal(a.map.begin(), a.map.end(), b.map.begin(), b.map.end(),
                        [](const auto& x, const auto& y) {
                          return x.first == y.first && equal(*x.second, *y.second);
                        });
  }
  return false;
}

}  // namespace sgtrain::core
