#include "recipe/value_grammar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::recipe {
namespace {

using core::InputError;
using core::Mark;
using core::Tree;
using core::TreePtr;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxRange = 10'000;  // points of one range(...)

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// '0' | [1-9](_?[0-9])* ; length taken from the front.
std::size_t unsigned_length(std::string_view text) {
  if (text.empty() || !is_digit(text[0])) return 0;
  if (text[0] == '0') return 1;
  std::size_t n = 1;
  while (n < text.size() &&
         (is_digit(text[n]) || (text[n] == '_' && n + 1 < text.size() && is_digit(text[n + 1]))))
    ++n;
  return n;
}

/// [0-9](_?[0-9])*
std::size_t digits_length(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && (is_digit(text[n]) || (n > 0 && text[n] == '_' && n + 1 < text.size() &&
                                                   is_digit(text[n + 1]))))
    ++n;
  return n;
}

std::string plain_digits(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_' && !(c == '+' && out.empty())) out.push_back(c);
  }
  return out;
}

std::optional<TreePtr> number(std::string_view text, const Mark& mark) {
  std::string_view body = text;
  if (!body.empty() && (body[0] == '-' || body[0] == '+')) body.remove_prefix(1);
  const bool negative = !text.empty() && text[0] == '-';
  const std::string word = core::lower(body);
  if (word == "inf") {
    const double infinity = std::numeric_limits<double>::infinity();
    return Tree::of(negative ? -infinity : infinity, mark);
  }
  if (word == "nan") return Tree::of(std::numeric_limits<double>::quiet_NaN(), mark);

  const std::size_t whole = unsigned_length(body);
  std::size_t at = whole;
  bool real = false;
  if (at < body.size() && body[at] == '.') {
    const std::size_t fraction = digits_length(body.substr(at + 1));
    if (whole == 0 && fraction == 0) return std::nullopt;
    at += 1 + fraction;
    real = true;
  }
  if (at == 0) return std::nullopt;
  if (at < body.size() && (body[at] == 'e' || body[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (exponent < body.size() && (body[exponent] == '-' || body[exponent] == '+')) ++exponent;
    const std::size_t length = digits_length(body.substr(exponent));
    if (length == 0) return std::nullopt;
    at = exponent + length;
    real = true;
  }
  if (at != body.size()) return std::nullopt;
  const std::string digits = plain_digits(text);
  const char* end = digits.data() + digits.size();
  if (!real) {
    std::int64_t value = 0;
    if (std::from_chars(digits.data(), end, value).ec == std::errc{}) return Tree::of(value, mark);
  }
  double value = 0.0;
  if (std::from_chars(digits.data(), end, value).ec == std::errc::result_out_of_range) {
    value = digits.find("e-") == std::string::npos ? std::numeric_limits<double>::infinity() : 0.0;
  }
  return Tree::of(value, mark);
}

TreePtr text_value(std::string text, const Mark& mark) {
  TreePtr tree = Tree::of(std::move(text), mark);
  if (tree->text == "???") tree->kind = Tree::Kind::kMissing;
  return tree;
}

TreePtr unquoted(std::string_view text, bool escaped, const Mark& mark) {
  if (!escaped) {
    const std::string word = core::lower(text);
    TreePtr tree;
    if (word == "null")
      tree = Tree::null(mark);
    else if (word == "true" || word == "false")
      tree = Tree::of(word == "true", mark);
    else if (auto value = number(text, mark))
      tree = *std::move(value);
    if (tree) {
      if (tree->kind != Tree::Kind::kNull) tree->text = std::string(text);
      return tree;
    }
  }
  return text_value(std::string(text), mark);
}

class Parser {
 public:
  Parser(std::string_view text, const Mark& mark) : text_(text), mark_(mark) {}

  TreePtr whole() {
    TreePtr value = element("", 0);
    skip_blanks();
    if (at_ != text_.size()) fail("nothing may follow here");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    std::string place = at_ < text_.size() ? " at '" + std::string(text_.substr(at_, 20)) + "'"
                                           : std::string(" at its end");
    throw InputError("the value '" + std::string(text_) + "' cannot be read" + place + ": " + what,
                     {}, "put single quotes around a text with special characters");
  }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void skip_blanks() {
    while (!at_end() && (peek() == ' ' || peek() == '\t')) ++at_;
  }

  /// `stops`: characters that end an unquoted text at this place.
  TreePtr element(std::string_view stops, std::size_t depth) {
    if (depth > kMaxDepth) fail("nested too deeply");
    skip_blanks();
    if (peek() == '[') return list(depth);
    if (peek() == '{') return map(depth);
    if (peek() == '\'' || peek() == '"') {
      std::string value = quoted();
      skip_blanks();
      if (!at_end() && stops.find(peek()) == std::string_view::npos) {
        fail("text follows the closing quote");
      }
      return text_value(std::move(value), mark_);
    }
    if (const std::string name = function_name(); !name.empty()) return call(name, stops, depth);
    auto [text, escaped] = primitive(stops);
    return unquoted(text, escaped, mark_);
  }

  TreePtr list(std::size_t depth) {
    ++at_;
    TreePtr out = Tree::make_list(mark_);
    skip_blanks();
    if (peek() == ']') {
      ++at_;
      return out;
    }
    for (;;) {
      out->list.push_back(element(",]", depth + 1));
      skip_blanks();
      if (peek() == ',') {
        ++at_;
      } else if (peek() == ']') {
        ++at_;
        return out;
      } else {
        fail("a list ends with ']'");
      }
    }
  }

  TreePtr map(std::size_t depth) {
    ++at_;
    TreePtr out = Tree::make_map(mark_);
    skip_blanks();
    if (peek() == '}') {
      ++at_;
      return out;
    }
    for (;;) {
      skip_blanks();
      const std::string key = peek() == '\'' || peek() == '"' ? quoted() : primitive(":,}").first;
      skip_blanks();
      if (peek() != ':') fail("a map is written {key: value}");
      if (key.empty()) fail("a key is empty");
      if (out->find(key)) fail("key '" + key + "' is given twice");
      ++at_;
      out->set(key, element(",}", depth + 1));
      skip_blanks();
      if (peek() == ',') {
        ++at_;
      } else if (peek() == '}') {
        ++at_;
        return out;
      } else {
        fail("a map ends with '}'");
      }
    }
  }

  /// Backslashes count only before a quote: n of them become n / 2, and an odd one keeps the quote
  /// inside the text.
  std::string quoted() {
    const char quote = peek();
    ++at_;
    std::string out;
    while (!at_end()) {
      if (peek() == '\\') {
        std::size_t count = 0;
        while (peek() == '\\' && !at_end()) {
          ++count;
          ++at_;
        }
        if (peek() != quote || at_end()) {
          out.append(count, '\\');
          continue;
        }
        out.append(count / 2, '\\');
        if (count % 2 == 1) {
          out.push_back(quote);
          ++at_;
        }
        continue;
      }
      if (peek() == quote) {
        ++at_;
        return out;
      }
      out.push_back(peek());
      ++at_;
    }
    fail("the quote is not closed");
  }

  /// An unquoted text up to one of `stops`, blanks at its borders removed, escapes resolved.
  std::pair<std::string, bool> primitive(std::string_view stops) {
    std::string out;
    bool escaped = false;
    std::size_t keep = 0;  // blanks that were escaped stay
    while (!at_end() && stops.find(peek()) == std::string_view::npos) {
      if (text_.substr(at_, 2) == "${") {
        const std::size_t end = end_of_interpolation(text_, at_);
        if (end == std::string_view::npos) fail("'${' is not closed by '}'");
        out.append(text_.substr(at_, end - at_));
        at_ = end;
        continue;
      }
      if (peek() == '\\' && at_ + 1 < text_.size() &&
          std::string_view("\\()[]{}:=, \t").find(text_[at_ + 1]) != std::string_view::npos) {
        out.push_back(text_[at_ + 1]);
        at_ += 2;
        escaped = true;
        keep = out.size();
        continue;
      }
      if (peek() == '\'' || peek() == '"') fail("a quote stands inside a text");
      if (std::string_view("[]{}").find(peek()) != std::string_view::npos) {
        fail("a bracket stands inside a text");
      }
      out.push_back(peek());
      ++at_;
    }
    while (out.size() > keep && (out.back() == ' ' || out.back() == '\t')) out.pop_back();
    return {out, escaped};
  }

  /// Name of a function when one starts here: an identifier and "(".
  std::string function_name() const {
    std::size_t end = at_;
    const auto letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    while (end < text_.size() && (letter(text_[end]) || (end > at_ && is_digit(text_[end])))) ++end;
    std::size_t paren = end;
    while (paren < text_.size() && text_[paren] == ' ') ++paren;
    if (end == at_ || paren >= text_.size() || text_[paren] != '(') return {};
    return std::string(text_.substr(at_, end - at_));
  }

  TreePtr call(const std::string& name, std::string_view stops, std::size_t depth) {
    static const std::vector<std::string> kCasts = {"int", "float", "str", "bool"};
    if (std::find(kCasts.begin(), kCasts.end(), name) == kCasts.end()) {
      fail("'" + name + "(...)' is no function for one value (known: int, float, str, bool; " +
           "choice and range make a sweep)");
    }
    at_ = text_.find('(', at_) + 1;
    const TreePtr argument = element(")", depth + 1);
    skip_blanks();
    if (peek() != ')') fail("a function ends with ')'");
    ++at_;
    skip_blanks();
    if (!at_end() && stops.find(peek()) == std::string_view::npos) fail("nothing may follow ')'");
    return cast(name, *argument);
  }

  TreePtr cast(const std::string& name, const Tree& value) const {
    if (value.is_list() || value.is_map()) {
      TreePtr out = value.clone();
      for (TreePtr& item : out->list) item = cast(name, *item);
      for (auto& [key, item] : out->map) item = cast(name, *item);
      return out;
    }
    const bool numeric = value.kind == Tree::Kind::kInt || value.kind == Tree::Kind::kFloat;
    const double real =
        value.kind == Tree::Kind::kInt ? static_cast<double>(value.integer) : value.real;
    if (name == "str")
      return text_value(value.is_scalar() && value.kind == Tree::Kind::kNull ? "null" : value.text,
                        mark_);
    if (name == "bool") {
      if (value.kind == Tree::Kind::kBool) return Tree::of(value.boolean, mark_);
      if (numeric) return Tree::of(real != 0.0, mark_);
    } else {
      double number_value = real;
      bool known = numeric;
      if (value.kind == Tree::Kind::kBool) number_value = value.boolean ? 1.0 : 0.0, known = true;
      if (value.kind == Tree::Kind::kString) {
        if (const auto parsed = number(value.text, mark_)) {
          number_value = (*parsed)->kind == Tree::Kind::kInt
                             ? static_cast<double>((*parsed)->integer)
                             : (*parsed)->real;
          known = true;
        }
      }
      if (known && name == "float") return Tree::of(number_value, mark_);
      if (known && std::abs(number_value) < 9e15) {
        return Tree::of(static_cast<std::int64_t>(number_value), mark_);
      }
    }
    fail("'" + value.text + "' cannot be made " + name);
  }

  std::string_view text_;
  const Mark& mark_;
  std::size_t at_ = 0;
};

double as_number(const Tree& tree) {
  if (tree.kind == Tree::Kind::kInt) return static_cast<double>(tree.integer);
  if (tree.kind == Tree::Kind::kFloat) return tree.real;
  throw InputError("range(start, stop, step) takes numbers, found '" + tree.text + "'");
}

std::vector<TreePtr> range(const std::vector<TreePtr>& arguments, const Mark& mark) {
  if (arguments.empty() || arguments.size() > 3) {
    throw InputError("range takes one to three numbers: range(stop) or range(start, stop, step)");
  }
  const double start = arguments.size() > 1 ? as_number(*arguments[0]) : 0.0;
  const double stop = as_number(*arguments[arguments.size() > 1 ? 1 : 0]);
  const double step = arguments.size() > 2 ? as_number(*arguments[2]) : 1.0;
  const bool whole = std::all_of(arguments.begin(), arguments.end(), [](const TreePtr& item) {
    return item->kind == Tree::Kind::kInt;
  });
  if (step == 0.0 || std::abs((stop - start) / step) > static_cast<double>(kMaxRange)) {
    throw InputError("this range has no end or more than " + std::to_string(kMaxRange) + " points");
  }
  std::vector<TreePtr> out;
  for (std::size_t i = 0;; ++i) {
    const double value = start + static_cast<double>(i) * step;
    if (step > 0 ? value >= stop : value <= stop) return out;
    out.push_back(whole ? Tree::of(static_cast<std::int64_t>(value), mark) : Tree::of(value, mark));
  }
}

}  // namespace

std::size_t end_of_interpolation(std::string_view text, std::size_t at) {
  std::vector<char> open;  // what must close, innermost last
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (text.substr(i, 2) == "${") {
      open.push_back('}');
      ++i;
    } else if (c == '{' || c == '[' || c == '(') {
      open.push_back(c == '{' ? '}' : c == '[' ? ']' : ')');
    } else if (c == '}' || c == ']' || c == ')') {
      if (open.empty() || open.back() != c) return std::string_view::npos;
      open.pop_back();
      if (open.empty()) return i + 1;
    } else if ((c == '\'' || c == '"') && !open.empty()) {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) return std::string_view::npos;
      i = end;
    }
  }
  return std::string_view::npos;
}

std::vector<std::string> split_arguments(std::string_view text) {
  std::vector<std::string> out;
  std::string here;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      here += text.substr(i, 2);
      ++i;
    } else if (text.substr(i, 2) == "${") {
      const std::size_t end = end_of_interpolation(text, i);
      const std::size_t stop = end == std::string_view::npos ? text.size() : end;
      here += text.substr(i, stop - i);
      i = stop - 1;
    } else if (c == '\'' || c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      const std::size_t stop = std::min(end + 1, text.size());
      here += text.substr(i, stop - i);
      i = stop - 1;
    } else if (c == ',' && depth == 0) {
      out.push_back(std::move(here));
      here.clear();
    } else {
      if (c == '[' || c == '{' || c == '(') ++depth;
      if (c == ']' || c == '}' || c == ')') --depth;
      here += c;
    }
  }
  out.push_back(std::move(here));
  return out;
}

TreePtr parse_value(std::string_view text, const Mark& mark) {
  return Parser(text, mark).whole();
}

std::vector<TreePtr> parse_alternatives(std::string_view text, const Mark& mark) {
  const std::string_view trimmed = core::trim(text);
  for (const std::string_view name : {"choice", "range"}) {
    if (!trimmed.starts_with(name) || trimmed.back() != ')') continue;
    const std::string_view rest = core::trim(trimmed.substr(name.size()));
    if (rest.empty() || rest.front() != '(') continue;
    std::vector<TreePtr> arguments;
    for (const std::string& part : split_arguments(rest.substr(1, rest.size() - 2))) {
      arguments.push_back(parse_value(part, mark));
    }
    return name == "range" ? range(arguments, mark) : arguments;
  }
  std::vector<TreePtr> out;
  const std::vector<std::string> parts = split_arguments(text);
  for (const std::string& part : parts) out.push_back(parse_value(part, mark));
  return out;
}

}  // namespace sgtrain::recipe
