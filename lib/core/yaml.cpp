#include "core/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::core {
namespace {

constexpr std::string_view kTagPrefix = "tag:yaml.org,2002:";

/// Builds the tree from yaml-cpp's events, so that nothing is built twice and every limit is
/// checked before memory is spent.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const std::string& name, const YamlLimits& limits,
              Problems& problems)
      : text_(text),
        file_(std::make_shared<const std::string>(name)),
        limits_(limits),
        problems_(problems) {}

  TreePtr root() const { return root_ ? root_ : Tree::null({file_, 0}); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& at, YAML::anchor_t anchor) override {
    if (expects_key()) {
      throw InputError("a key is empty", mark(at).str(), "write the key before the colon");
    }
    // yaml-cpp marks an empty value where the next token is: the key's line is the right one.
    add(Tree::null(stack_.empty() || stack_.back().tree->is_list() ? mark(at)
                                                                   : stack_.back().key_mark),
        anchor);
  }

  void OnAlias(const YAML::Mark& at, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw InputError("an alias (*name) stands inside the value it names, which would never end",
                       mark(at).str(), "write the value out");
    }
    if (expects_key()) {
      if (!found->second->is_scalar()) refuse_key(mark(at));
      return take_key(found->second->text, mark(at));
    }
    count(*found->second, mark(at));
    add(found->second->clone(), 0);
  }

  void OnScalar(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag != "?") check_quote(at);
    if (expects_key()) return take_key(value, mark(at), tag == "?");
    add(scalar(value, tag, mark(at)), anchor);
  }

  void OnSequenceStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_tag(tag, "seq", mark(at));
    open(Tree::make_list(container_mark(at)), anchor, at);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& at, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_tag(tag, "map", mark(at));
    open(Tree::make_map(container_mark(at)), anchor, at);
  }
  void OnMapEnd() override {
    merge_keys();
    close();
  }

 private:
  struct Level {
    TreePtr tree;
    YAML::anchor_t anchor = 0;
    std::optional<std::string> key;  // of a map, while its value is awaited
    Mark key_mark;
    std::unordered_map<std::string, int> lines;  // of a map: where each key was first given
    std::vector<TreePtr> merges;                 // values of `<<`
    bool merging = false;
    bool duplicate = false;  // the awaited value belongs to a key given before
  };

  Mark mark(const YAML::Mark& at) const { return {file_, at.line + 1}; }

  /// A list or map is marked at its key, where a reader looks for it.
  Mark container_mark(const YAML::Mark& at) const {
    return !stack_.empty() && stack_.back().key ? stack_.back().key_mark : mark(at);
  }

  bool expects_key() const {
    return !stack_.empty() && stack_.back().tree->is_map() && !stack_.back().key &&
           !stack_.back().merging;
  }

  /// yaml-cpp takes a quote that is never closed as one that ends with the file.
  void check_quote(const YAML::Mark& at) {
    while (line_ < at.line) {
      line_begin_ = text_.find('\n', line_begin_);
      if (line_begin_ == std::string_view::npos) return;
      ++line_begin_;
      ++line_;
    }
    std::size_t i = line_begin_ + static_cast<std::size_t>(at.column);
    if (line_ > at.line || i >= text_.size() || (text_[i] != '\'' && text_[i] != '"')) return;
    const char quote = text_[i];
    for (++i; i < text_.size(); ++i) {
      if (text_[i] == '\\' && quote == '"') {
        ++i;
      } else if (text_[i] == quote) {
        if (quote != '\'' || i + 1 >= text_.size() || text_[i + 1] != quote) return;
        ++i;
      }
    }
    throw InputError("the quote that opens here is never closed", mark(at).str(),
                     "close it on the same line");
  }

  [[noreturn]] static void refuse_key(const Mark& at) {
    throw InputError("a key must be one word or text, not a list or a map", at.str(),
                     "when this is an interpolation, quote it: \"${...}\"");
  }

  void take_key(const std::string& key, Mark at, bool plain = true) {
    Level& level = stack_.back();
    level.key_mark = at;
    if (plain && key == "<<") {
      level.merging = true;
      return;
    }
    const auto [first, fresh] = level.lines.emplace(key, at.line);
    if (!fresh) {
      problems_.add(at.str(), {},
                    "key '" + key + "' is given twice in one map (first in line " +
                        std::to_string(first->second) + ")");
    }
    level.key = key;
    level.duplicate = !fresh;
  }

  void check_tag(const std::string& tag, std::string_view wanted, const Mark& at) const {
    if (tag.empty() || tag == "?" || tag == "!" ||
        tag == std::string(kTagPrefix) + std::string(wanted)) {
      return;
    }
    throw InputError("the tag '" + tag + "' is not accepted: a recipe is plain data", at.str(),
                     "remove the tag");
  }

  TreePtr scalar(const std::string& value, const std::string& tag, Mark at) const {
    if (tag == "?") return plain_scalar(value, std::move(at));
    const std::string_view name =
        tag.starts_with(kTagPrefix) ? std::string_view(tag).substr(kTagPrefix.size()) : "";
    if (name == "int" || name == "float" || name == "bool" || name == "null") {
      TreePtr tree = plain_scalar(value, at);
      if (name == "float" && tree->kind == Tree::Kind::kInt) {
        tree = Tree::of(static_cast<double>(tree->integer), at);
      }
      return tree;
    }
    if (name != "str") check_tag(tag, "str", at);
    if (value == "???") return plain_scalar(value, std::move(at));  // missing even when quoted
    return Tree::of(value, std::move(at));
  }

  void count(const Tree& tree, const Mark& at) {
    ++nodes_;
    if (nodes_ > limits_.nodes) {
      throw InputError(
          "more than " + std::to_string(limits_.nodes) + " values after the aliases are expanded",
          at.str(), "this is no recipe; write repeated values once");
    }
    for (const TreePtr& item : tree.list) count(*item, at);
    for (const auto& [key, value] : tree.map) count(*value, at);
  }

  void add(const TreePtr& tree, YAML::anchor_t anchor) {
    if (tree->is_scalar()) count(*tree, tree->mark);
    if (anchor != 0) anchors_[anchor] = tree;
    attach(tree);
  }

  void attach(const TreePtr& tree) {
    if (stack_.empty()) {
      root_ = tree;
      return;
    }
    Level& level = stack_.back();
    if (level.tree->is_list()) {
      level.tree->list.push_back(tree);
    } else if (level.merging) {
      level.merges.push_back(tree);
      level.merging = false;
    } else {
      if (!level.duplicate) level.tree->map.emplace_back(*level.key, tree);
      level.key.reset();
    }
  }

  void open(TreePtr tree, YAML::anchor_t anchor, const YAML::Mark& at) {
    if (expects_key()) refuse_key(mark(at));
    if (stack_.size() >= limits_.depth) {
      throw InputError("nested deeper than " + std::to_string(limits_.depth) + " levels",
                       mark(at).str(), "this is no recipe");
    }
    count(*tree, tree->mark);
    stack_.push_back({.tree = std::move(tree),
                      .anchor = anchor,
                      .key = {},
                      .key_mark = {},
                      .lines = {},
                      .merges = {}});
  }

  void close() {
    const Level level = std::move(stack_.back());
    stack_.pop_back();
    if (level.anchor != 0) anchors_[level.anchor] = level.tree;
    attach(level.tree);
  }

  /// `<<: *base` or `<<: [*a, *b]`: keys of the map itself win, then those of earlier bases.
  void merge_keys() {
    Level& level = stack_.back();
    if (level.merges.empty()) return;
    std::vector<TreePtr> bases;
    for (const TreePtr& value : level.merges) {
      if (value->is_list())
        bases.insert(bases.end(), value->list.begin(), value->list.end());
      else
        bases.push_back(value);
    }
    const TreePtr merged = Tree::make_map(level.tree->mark);
    for (const TreePtr& base : bases) {
      if (!base->is_map()) {
        throw InputError("'<<' merges maps, found " + std::string(kind_name(base->kind)),
                         base->mark.str(), "name an anchored map: <<: *name");
      }
      for (const auto& [key, value] : base->map) {
        if (!merged->find(key)) merged->set(key, value);
      }
    }
    for (const auto& [key, value] : level.tree->map) merged->set(key, value);
    level.tree->map = std::move(merged->map);
  }

  std::string_view text_;
  int line_ = 0;                // of check_quote(): where it stands in the text,
  std::size_t line_begin_ = 0;  // and where that line begins
  std::shared_ptr<const std::string> file_;
  YamlLimits limits_;
  std::vector<Level> stack_;
  std::unordered_map<YAML::anchor_t, TreePtr> anchors_;
  std::size_t nodes_ = 0;
  TreePtr root_;
  Problems& problems_;
};

std::string line_of(std::string_view text, int line) {
  std::size_t begin = 0;
  for (int i = 1; i < line && begin != std::string_view::npos; ++i) {
    begin = text.find('\n', begin);
    if (begin != std::string_view::npos) ++begin;
  }
  if (begin == std::string_view::npos || begin >= text.size()) return {};
  return std::string(trim(text.substr(begin, text.find('\n', begin) - begin)));
}

int indent_of(std::string_view line) {
  const auto first = line.find_first_not_of(' ');
  return first == std::string_view::npos ? -1 : static_cast<int>(first);
}

/// "name:value" without the blank that makes it a key; empty when the line is not of that kind.
std::string missing_blank(std::string_view line) {
  const std::string_view text = trim(line);
  const auto colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 >= text.size()) return {};
  if (text[colon + 1] == ' ' || text[colon + 1] == '/' || text[colon + 1] == ':') return {};
  const std::string_view key = text.substr(0, colon);
  if (key.find_first_of(" \"'{}[],#$@") != std::string_view::npos) return {};
  return std::string(key) + ": " + std::string(text.substr(colon + 1));
}

/// yaml-cpp often notices a mistake on the line after it, so both are looked at.
std::string syntax_hint(std::string_view text, int line, std::string_view reason) {
  std::vector<std::string> lines = split(text, '\n');
  const auto get = [&](int number) -> std::string_view {
    return number >= 1 && number <= static_cast<int>(lines.size())
               ? std::string_view(lines[static_cast<std::size_t>(number - 1)])
               : std::string_view();
  };
  for (const int number : {line, line - 1}) {
    const std::string_view here = get(number);
    const auto first = here.find_first_not_of(" \t");
    if (first != std::string_view::npos &&
        here.substr(0, first).find('\t') != std::string_view::npos) {
      return "line " + std::to_string(number) + " is indented with a tab: YAML wants blanks";
    }
    if (const std::string fixed = missing_blank(here); !fixed.empty()) {
      return "line " + std::to_string(number) + " lacks the blank after the colon, write: " + fixed;
    }
  }
  if (reason.find("flow") != std::string_view::npos) return "check brackets, braces and commas";
  if (reason.find("end of map") != std::string_view::npos ||
      reason.find("end of sequence") != std::string_view::npos ||
      reason.find("illegal map value") != std::string_view::npos) {
    int above = line - 1;
    while (above > 0 && trim(get(above)).empty()) --above;
    const int here = indent_of(get(line));
    const int before = indent_of(get(above));
    if (above > 0 && here != before) {
      return "check the indentation: line " + std::to_string(line) + " starts after " +
             std::to_string(std::max(here, 0)) + " blanks, line " + std::to_string(above) +
             " after " + std::to_string(std::max(before, 0)) +
             "; keys of one map start in one column";
    }
  }
  return "check the indentation, and quote texts that hold ': ' or ' #'";
}

[[noreturn]] void throw_syntax(const YAML::Exception& error, std::string_view text,
                               const std::string& name) {
  const int line = error.mark.line + 1;
  std::string what = "not valid YAML: " + error.msg;
  if (const std::string source = line_of(text, line); !source.empty()) {
    what += "\n    " + source.substr(0, 120);
  }
  throw InputError(what, name + ":" + std::to_string(line), syntax_hint(text, line, error.msg));
}

}  // namespace

TreePtr parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits) {
  Problems problems;
  TreePtr tree = parse_yaml(text, name, problems, limits);
  problems.throw_if_any("YAML file " + name);
  return tree;
}

TreePtr parse_yaml(std::string_view text, const std::string& name, Problems& problems,
                   const YamlLimits& limits) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (text.size() > limits.bytes) {
    throw InputError("the file has " + std::to_string(text.size()) + " bytes, more than " +
                         std::to_string(limits.bytes),
                     name, "this is no recipe");
  }
  if (text.find('\0') != std::string_view::npos) {
    throw InputError("the file holds zero bytes, so it is no text", name, "save it as UTF-8 text");
  }
  TreeBuilder builder(text, name, limits, problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    TreeBuilder second(text, name, limits, problems);
    if (parser.HandleNextDocument(second)) {
      throw InputError("a second YAML document ('---') begins here, and only one is read",
                       second.root()->mark.str(), "keep one document per file");
    }
  } catch (const YAML::Exception& error) {
    throw_syntax(error, text, name);
  }
  return builder.root();
}

std::string read_text(const std::filesystem::path& file, std::size_t bytes) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    throw InputError("this is a folder, not a file", file.string(), "name a file in it");
  }
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    throw InputError(std::string("cannot be read: ") + std::strerror(errno), file.string(),
                     "check the path and its permissions");
  }
  std::string text;
  char buffer[65536];
  while (stream.read(buffer, sizeof buffer) || stream.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > bytes) {
      throw InputError("the file has more than " + std::to_string(bytes) + " bytes", file.string(),
                       "this is no recipe");
    }
  }
  return text;
}

TreePtr load_yaml(const std::filesystem::path& file, const YamlLimits& limits) {
  return load_yaml(file, file.string(), limits);
}

TreePtr load_yaml(const std::filesystem::path& file, const std::string& name,
                  const YamlLimits& limits) {
  return parse_yaml(read_text(file, limits.bytes), name, limits);
}

}  // namespace sgtrain::core
