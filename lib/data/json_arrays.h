// Walks JSON files of any size (an annotation file of two million images is larger than a parser's
// document limit): only the elements of named top-level arrays are handed out, one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

namespace sgtrain::data {

/// One element of a top-level array, as text. At least `kPadding` readable bytes follow it.
struct JsonElement {
  static constexpr std::size_t kPadding = 64;
  std::string_view text;
  std::size_t index = 0;   // in its array
  std::size_t offset = 0;  // of the text in the file
};

struct JsonArray {
  std::string_view key;
  std::function<void(const JsonElement&)> on_element;
  bool found = false;
};

/// Calls on_element for each element of each array in `arrays`, in the file's order.
/// The rest of the file is skipped with balanced brackets and strings only.
/// Errors: core::InputError with file:line when the file is not an object, a named key is not an
/// array, or the text ends too early. What on_element throws passes through.
void walk_json_arrays(const std::filesystem::path& file, std::vector<JsonArray>& arrays);

/// 1-based line of an offset.
std::size_t line_of(const std::filesystem::path& file, std::size_t offset);

}  // namespace sgtrain::data
