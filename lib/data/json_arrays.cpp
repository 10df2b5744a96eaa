#include "data/json_arrays.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/mapped_file.h"

namespace sgtrain::data {
namespace {

/// Bytes that matter while skipping: quotes and brackets.
constexpr std::array<bool, 256> make_special() {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}
constexpr auto kSpecial = make_special();

class Walker {
 public:
  Walker(const std::filesystem::path& file, std::string_view text) : file_(file), text_(text) {}

  void walk(std::vector<JsonArray>& arrays) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // UTF-8 byte order mark
    expect('{', "the file must be one JSON object (with images, annotations, categories)");
    if (accept('}')) return;
    do {
      skip_blanks();
      const std::string_view key = string();
      expect(':', "expected ':' after a key");
      const auto array = std::find_if(arrays.begin(), arrays.end(),
                                      [&](const JsonArray& a) { return a.key == key; });
      if (array == arrays.end()) {
        skip_value();
      } else {
        array->found = true;
        elements(*array);
      }
    } while (accept(','));
    expect('}', "expected ',' or '}'");
    skip_blanks();
    if (at_ != text_.size()) fail("text behind the end of the JSON object");
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    const auto line =
        std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw core::InputError("not a readable JSON file: " + std::string(what),
                           file_.native() + ":" + std::to_string(line + 1));
  }
  void skip_blanks() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, std::string_view otherwise) {
    if (!accept(c)) fail(at_ >= text_.size() ? "the file ends too early" : otherwise);
  }
  /// The text between the quotes, escapes as written.
  std::string_view string() {
    if (at_ >= text_.size() || text_[at_] != '"') fail("expected a key in quotes");
    const std::size_t begin = ++at_;
    for (;;) {
      const void* quote = std::memchr(text_.data() + at_, '"', text_.size() - at_);
      if (quote == nullptr) {
        at_ = text_.size();
        fail("the file ends inside a text");
      }
      at_ = static_cast<std::size_t>(static_cast<const char*>(quote) - text_.data()) + 1;
      std::size_t slashes = 0;
      while (at_ - 2 - slashes >= begin && text_[at_ - 2 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) return text_.substr(begin, at_ - 1 - begin);
    }
  }
  void skip_brackets() {
    std::size_t depth = 0;
    do {
      while (at_ < text_.size() && !kSpecial[static_cast<unsigned char>(text_[at_])]) ++at_;
      if (at_ >= text_.size()) fail("the file ends too early");
      const char c = text_[at_];
      if (c == '"') {
        string();
        continue;
      }
      ++at_;
      depth += c == '{' || c == '[' ? 1 : static_cast<std::size_t>(-1);
    } while (depth > 0);
  }
  void skip_value() {
    skip_blanks();
    if (at_ >= text_.size()) fail("the file ends too early");
    const char c = text_[at_];
    if (c == '{' || c == '[') return skip_brackets();
    if (c == '"') {
      string();
      return;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && std::strchr(",]} \n\r\t", text_[at_]) == nullptr) ++at_;
    if (at_ == begin) fail("expected a value");
  }
  void elements(JsonArray& array) {
    expect('[', "'" + std::string(array.key) + "' must be a list");
    if (accept(']')) return;
    JsonElement element;
    do {
      skip_blanks();
      element.offset = at_;
      skip_value();
      element.text = text_.substr(element.offset, at_ - element.offset);
      hand_out(array, element);
      ++element.index;
    } while (accept(','));
    expect(']', "expected ',' or ']'");
  }
  void hand_out(const JsonArray& array, JsonElement element) {
    if (text_.size() - at_ >= JsonElement::kPadding) return array.on_element(element);
    std::string padded(element.text);  // near the end of the mapping
    padded.resize(element.text.size() + JsonElement::kPadding);
    element.text = std::string_view(padded).substr(0, element.text.size());
    array.on_element(element);
  }

  const std::filesystem::path& file_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

void walk_json_arrays(const std::filesystem::path& file, std::vector<JsonArray>& arrays) {
  const auto mapped = core::MappedFile::open(file);
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()),
                              mapped->size());
  Walker(file, text).walk(arrays);
}

std::size_t line_of(const std::filesystem::path& file, std::size_t offset) {
  const auto mapped = core::MappedFile::open(file);
  const auto bytes = mapped->bytes().first(std::min(offset, mapped->size()));
  return static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), std::byte{'\n'})) + 1;
}

}  // namespace sgtrain::data
