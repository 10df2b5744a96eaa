// Types of plain scalars: the regular expressions of PyYAML's YAML 1.1 resolver with OmegaConf's
// float rule, as hand-written matchers (std::regex costs more than the whole parse).
#include <charconv>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/yaml.h"

namespace sgtrain::core {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Takes pieces of a text from the left, as the regular expressions would.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool take(char c) {
    if (peek() != c || done()) return false;
    ++at_;
    return true;
  }
  bool take_sign() { return take('-') || take('+'); }
  /// Number of characters taken that satisfy `accept`.
  template <class Accept>
  std::size_t take_while(Accept accept) {
    const std::size_t begin = at_;
    while (!done() && accept(text_[at_])) ++at_;
    return at_ - begin;
  }
  std::size_t take_digits() { return take_while(is_digit); }
  std::size_t take_digits_underscores() {
    return take_while([](char c) { return is_digit(c) || c == '_'; });
  }
  /// [eE][-+]?[0-9]+ ; `sign_needed`: PyYAML's own rule.
  bool take_exponent(bool sign_needed) {
    const std::size_t begin = at_;
    if ((take('e') || take('E')) && (take_sign() || !sign_needed) && take_digits() > 0) return true;
    at_ = begin;
    return false;
  }
  /// (:[0-5]?[0-9])+
  bool take_sexagesimal() {
    bool any = false;
    for (;; any = true) {
      const std::size_t begin = at_;
      if (!take(':')) return any;
      const bool low = peek() >= '0' && peek() <= '5';
      if (take_digits_upto(low ? 2 : 1) == 0) {
        at_ = begin;
        return any;
      }
    }
  }

 private:
  std::size_t take_digits_upto(std::size_t most) {
    std::size_t count = 0;
    while (count < most && is_digit(peek()) && !done()) {
      ++at_;
      ++count;
    }
    return count;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    if (text == word) return true;
  }
  return false;
}

/// [0-9]+(_[0-9]+)*
bool take_grouped(Cursor& c) {
  if (c.take_digits() == 0) return false;
  for (;;) {
    Cursor ahead = c;
    if (!ahead.take('_') || ahead.take_digits() == 0) return true;
    c = ahead;
  }
}

bool is_float(std::string_view text) {
  if (one_of(text, {".nan", ".NaN", ".NAN"})) return true;
  Cursor start(text);
  start.take_sign();
  {
    std::string_view rest = text;
    if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) rest.remove_prefix(1);
    if (one_of(rest, {".inf", ".Inf", ".INF"})) return true;
  }
  if (Cursor c = start; is_digit(c.peek())) {
    Cursor loose = c;  // [0-9][0-9_]*\.[0-9_]*([eE][-+][0-9]+)?
    loose.take_digits_underscores();
    Cursor sexagesimal = loose;
    if (loose.take('.')) {
      loose.take_digits_underscores();
      loose.take_exponent(true);
      if (loose.done()) return true;
    }
    if (sexagesimal.take_sexagesimal() && sexagesimal.take('.')) {
      sexagesimal.take_digits_underscores();
      if (sexagesimal.done()) return true;
    }
    Cursor grouped = c;  // OmegaConf: [0-9]+(_[0-9]+)* with \.[0-9_]* and a free exponent
    if (take_grouped(grouped)) {
      if (Cursor point = grouped; point.take('.')) {
        point.take_digits_underscores();
        point.take_exponent(false);
        if (point.done()) return true;
      }
      if (grouped.take_exponent(false) && grouped.done()) return true;
    }
    return false;
  }
  Cursor c(text);  // \.[0-9][0-9_]*([eE][-+][0-9]+)? : no sign before the point
  if (!c.take('.') || !is_digit(c.peek())) return false;
  c.take_digits_underscores();
  c.take_exponent(true);
  return c.done();
}

bool is_int(std::string_view text) {
  Cursor c(text);
  c.take_sign();
  if (c.take('0')) {
    if (c.done()) return true;
    if (Cursor binary = c; binary.take('b')) {
      return binary.take_while([](char x) { return x == '0' || x == '1' || x == '_'; }) > 0 &&
             binary.done();
    }
    if (Cursor hex = c; hex.take('x')) {
      return hex.take_while([](char x) {
        return is_digit(x) || (x >= 'a' && x <= 'f') || (x >= 'A' && x <= 'F') || x == '_';
      }) > 0 &&
             hex.done();
    }
    return c.take_while([](char x) { return (x >= '0' && x <= '7') || x == '_'; }) > 0 && c.done();
  }
  if (!is_digit(c.peek())) return false;
  c.take_digits_underscores();
  if (c.done()) return true;
  return c.take_sexagesimal() && c.done();
}

std::string without_underscores(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != '_') out.push_back(c);
  }
  return out;
}

/// nullopt when it does not fit 64 bits.
std::optional<std::int64_t> int_value(std::string_view text) {
  std::string digits = without_underscores(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  std::uint64_t value = 0;
  if (digits.find(':') != std::string::npos) {
    std::uint64_t part = 0;
    for (const char c : digits + ":") {
      if (c == ':') {
        if (value > (std::numeric_limits<std::uint64_t>::max() - part) / 60) return std::nullopt;
        value = value * 60 + part;
        part = 0;
      } else {
        if (part > std::numeric_limits<std::uint64_t>::max() / 10 - 1) return std::nullopt;
        part = part * 10 + static_cast<std::uint64_t>(c - '0');
      }
    }
  } else {
    int base = 10;
    std::size_t skip = 0;
    if (digits.starts_with("0b"))
      base = 2, skip = 2;
    else if (digits.starts_with("0x"))
      base = 16, skip = 2;
    else if (digits.size() > 1 && digits[0] == '0')
      base = 8, skip = 1;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data() + skip, end, value, base);
    if (error != std::errc{} || stop != end) return std::nullopt;
  }
  const std::uint64_t limit = std::uint64_t{1} << 63;
  if (value > limit || (value == limit && !negative)) return std::nullopt;
  return negative ? static_cast<std::int64_t>(~value + 1) : static_cast<std::int64_t>(value);
}

double float_value(std::string_view text) {
  std::string digits = without_underscores(text);
  double sign = 1.0;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    sign = digits[0] == '-' ? -1.0 : 1.0;
    digits.erase(0, 1);
  }
  if (digits.size() == 4 && digits[0] == '.' && (digits[1] == 'i' || digits[1] == 'I')) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (digits.size() == 4 && digits[0] == '.' && (digits[1] == 'n' || digits[1] == 'N')) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value = 0.0;
  std::size_t begin = 0;
  for (;;) {  // sexagesimal: parts of 60 (1:30.5 = 90.5)
    const std::size_t end = digits.find(':', begin);
    const std::string_view part = std::string_view(digits).substr(begin, end - begin);
    double number = 0.0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), number);
    static_cast<void>(stop);
    if (error == std::errc::result_out_of_range) {
      // Python reads 1e999 as inf and 1e-999 as 0.
      number =
          part.find("e-") != std::string_view::npos || part.find("E-") != std::string_view::npos
              ? 0.0
              : std::numeric_limits<double>::infinity();
    }
    value = value * 60.0 + number;
    if (end == std::string::npos) return sign * value;
    begin = end + 1;
  }
}

}  // namespace

TreePtr plain_scalar(std::string_view text, Mark mark) {
  if (one_of(text, {"", "~", "null", "Null", "NULL"})) return Tree::null(std::move(mark));
  const auto finish = [&](TreePtr tree) {
    tree->text = std::string(text);  // as written
    return tree;
  };
  if (text == "???") {
    auto tree = Tree::null(std::move(mark));
    tree->kind = Tree::Kind::kMissing;
    return finish(tree);
  }
  if (one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) {
    return finish(Tree::of(true, std::move(mark)));
  }
  if (one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) {
    return finish(Tree::of(false, std::move(mark)));
  }
  if (is_float(text)) return finish(Tree::of(float_value(text), std::move(mark)));
  if (is_int(text)) {
    if (const auto value = int_value(text)) return finish(Tree::of(*value, std::move(mark)));
    if (text.find_first_of("bx") != std::string_view::npos)
      return Tree::of(std::string(text), mark);
    // Larger than 64 bits: a float keeps its magnitude, so that a bound at the read can refuse it.
    return finish(Tree::of(float_value(text), std::move(mark)));
  }
  return Tree::of(std::string(text), std::move(mark));
}

}  // namespace sgtrain::core
