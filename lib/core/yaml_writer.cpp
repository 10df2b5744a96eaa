#include "core/yaml_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/yaml.h"

namespace sgtrain::core {
namespace {

constexpr std::size_t kLineWidth = 96;

/// Shortest digits that read back as the same value, in a form that YAML 1.1 takes for a float.
std::string float_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  std::array<char, 32> buffer{};
  const double size = std::abs(value);  // 0.0001 reads better than 1e-04
  const auto format = size == 0.0 || (size >= 1e-4 && size < 1e16) ? std::chars_format::fixed
                                                                   : std::chars_format::scientific;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  const std::string text(buffer.data(), end);
  const auto exponent = text.find('e');
  const std::string mantissa = text.substr(0, exponent);
  const std::string tail = exponent == std::string::npos ? "" : text.substr(exponent);
  return mantissa.find('.') == std::string::npos ? mantissa + ".0" + tail : text;
}

bool has_control(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) return true;
  }
  // YAML also counts the next-line and line-separator characters as line ends.
  return text.find("\xC2\x85") != std::string_view::npos ||
         text.find("\xE2\x80\xA8") != std::string_view::npos ||
         text.find("\xE2\x80\xA9") != std::string_view::npos ||
         text.find("\xEF\xBB\xBF") != std::string_view::npos;
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      char code[8];
      std::snprintf(code, sizeof code, "\\x%02x", byte);
      out += code;
    } else if (text.substr(i, 2) == "\xC2\x85") {
      out += "\\u0085";
      i += 1;
    } else if (text.substr(i, 3) == "\xE2\x80\xA8" || text.substr(i, 3) == "\xE2\x80\xA9") {
      out += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else if (text.substr(i, 3) == "\xEF\xBB\xBF") {
      out += "\\uFEFF";
      i += 2;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string single_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c;
    if (c == '\'') out += '\'';
  }
  return out + "'";
}

/// True when the text can stand without quotes, in block and in flow style, and reads as itself.
bool plain_is_safe(std::string_view text) {
  if (text.empty() || plain_scalar(text)->kind != Tree::Kind::kString) return false;
  if (text.front() == ' ' || text.back() == ' ' || text == "=" || text == "<<") return false;
  // PyYAML without OmegaConf reads dates as dates: a quote keeps them texts everywhere.
  if (text.size() >= 8 && text[0] >= '0' && text[0] <= '9' && text[4] == '-') return false;
  if (std::string_view("-?:,[]{}#&*!|>'\"%@`").find(text.front()) != std::string_view::npos) {
    return false;
  }
  if (text.starts_with("---") || text.starts_with("...")) return false;
  if (text.find_first_of(",[]{}") != std::string_view::npos) return false;
  return text.find(": ") == std::string_view::npos && text.find(" #") == std::string_view::npos &&
         text.back() != ':';
}

std::string quote(std::string_view text) {
  if (has_control(text)) return double_quoted(text);
  return plain_is_safe(text) ? std::string(text) : single_quoted(text);
}

/// A `${` of a resolved text is meant literally, so the reader must not interpolate it:
/// n backslashes before `${` become 2n + 1.
std::string escape_interpolation(std::string_view text) {
  std::string out;
  std::size_t backslashes = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "${") out.append(backslashes + 1, '\\');
    backslashes = text[i] == '\\' ? backslashes + 1 : 0;
    out += text[i];
  }
  return out;
}

std::string scalar_text(const Tree& tree) {
  switch (tree.kind) {
    case Tree::Kind::kNull:
      return "null";
    case Tree::Kind::kMissing:
      return "???";
    case Tree::Kind::kBool:
      return tree.boolean ? "true" : "false";
    case Tree::Kind::kInt:
      return std::to_string(tree.integer);
    case Tree::Kind::kFloat:
      return float_text(tree.real);
    default:
      break;
  }
  return quote(tree.unresolved ? tree.text : escape_interpolation(tree.text));
}

/// Keys are texts for the reader; only those that a YAML parser would take apart need quotes.
std::string key_text(const std::string& key) {
  if (has_control(key)) return double_quoted(key);
  const TreePtr plain = plain_scalar(key);
  const bool number = plain->kind == Tree::Kind::kInt || plain->kind == Tree::Kind::kFloat;
  return number || plain_is_safe(key) ? key : single_quoted(key);
}

void write_flow(const Tree& tree, std::string& out) {
  if (tree.is_list()) {
    out += '[';
    for (std::size_t i = 0; i < tree.list.size(); ++i) {
      if (i > 0) out += ", ";
      write_flow(*tree.list[i], out);
    }
    out += ']';
  } else if (tree.is_map()) {
    out += '{';
    for (std::size_t i = 0; i < tree.map.size(); ++i) {
      if (i > 0) out += ", ";
      out += key_text(tree.map[i].first) + ": ";
      write_flow(*tree.map[i].second, out);
    }
    out += '}';
  } else {
    out += scalar_text(tree);
  }
}

/// The list in one line, when it holds only scalars (or such lists) and fits; else empty.
std::string short_list(const Tree& tree, std::size_t indent) {
  for (const TreePtr& item : tree.list) {
    if (item->is_map()) return {};
  }
  std::string out;
  write_flow(tree, out);
  return out.size() + indent <= kLineWidth ? out : std::string();
}

void write_block(const Tree& tree, std::size_t indent, std::string& out);

/// The value of a key or list item; `inside`: column of what follows on further lines.
void write_value(const Tree& tree, std::size_t inside, bool in_list, std::string& out) {
  if (tree.is_scalar()) {
    out += " " + scalar_text(tree) + "\n";
    return;
  }
  if (tree.is_list()) {
    if (const std::string line = short_list(tree, inside + 2); !line.empty()) {
      out += " " + line + "\n";
      return;
    }
  }
  if (tree.is_map() && tree.map.empty()) {
    out += " {}\n";
    return;
  }
  if (in_list) {  // "- key: value": the first entry stands behind the dash
    std::string block;
    write_block(tree, inside, block);
    out += " " + block.substr(inside);
    return;
  }
  out += "\n";
  write_block(tree, inside, out);
}

void write_block(const Tree& tree, std::size_t indent, std::string& out) {
  const std::string blanks(indent, ' ');
  for (const auto& [key, value] : tree.map) {
    out += blanks + key_text(key) + ":";
    write_value(*value, indent + 2, false, out);
  }
  for (const TreePtr& item : tree.list) {
    out += blanks + "-";
    write_value(*item, indent + 2, true, out);
  }
}

}  // namespace

std::string write_yaml(const Tree& tree) {
  if (tree.is_scalar()) return scalar_text(tree) + "\n";
  if (tree.is_map() && tree.map.empty()) return "{}\n";
  if (tree.is_list()) {
    if (const std::string line = short_list(tree, 0); !line.empty()) return line + "\n";
  }
  std::string out;
  write_block(tree, 0, out);
  return out;
}

std::string write_yaml_inline(const Tree& tree) {
  std::string out;
  write_flow(tree, out);
  return out;
}

}  // namespace sgtrain::core
