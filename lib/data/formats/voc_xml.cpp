#include "data/formats/voc_xml.h"

#include <tinyxml2.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/text.h"

namespace sgtrain::data {
namespace {

using tinyxml2::XMLElement;

std::string_view text_of(const XMLElement* parent, const char* name) {
  const XMLElement* child = parent == nullptr ? nullptr : parent->FirstChildElement(name);
  const char* text = child == nullptr ? nullptr : child->GetText();
  return text == nullptr ? std::string_view() : core::trim(text);
}

std::optional<double> number_of(const XMLElement* parent, const char* name) {
  const std::string_view text = text_of(parent, name);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

[[noreturn]] void fail(const std::string& file, int line, std::string_view what) {
  throw core::InputError(
      "not a readable annotation file: " + std::string(what), file + ":" + std::to_string(line),
      "correct or remove the file, or set skip_bad: True to leave its image out");
}

std::string_view describe(tinyxml2::XMLError error) {
  switch (error) {
    case tinyxml2::XML_ERROR_EMPTY_DOCUMENT:
      return "the file is empty";
    case tinyxml2::XML_ERROR_MISMATCHED_ELEMENT:
      return "an element is not closed";
    case tinyxml2::XML_ELEMENT_DEPTH_EXCEEDED:
      return "elements are nested too deeply";
    default:
      return "not well-formed XML";
  }
}

/// tinyxml2 accepts several roots and text around them; a document has one.
void refuse_more_than_a_root(const tinyxml2::XMLDocument& document, const std::string& file) {
  for (const auto* node = document.FirstChild(); node != nullptr; node = node->NextSibling()) {
    const bool harmless = node->ToComment() != nullptr || node->ToDeclaration() != nullptr ||
                          node->ToUnknown() != nullptr || node == document.RootElement();
    if (!harmless) fail(file, node->GetLineNum(), "text or a second root element behind the first");
  }
}

void read_object(const XMLElement* element, VocFile& out) {
  VocObject object;
  object.line = static_cast<std::uint32_t>(element->GetLineNum());
  object.name = text_of(element, "name");
  object.difficult = text_of(element, "difficult") == "1";
  const XMLElement* corners = element->FirstChildElement("bndbox");
  const auto x1 = number_of(corners, "xmin"), y1 = number_of(corners, "ymin");
  const auto x2 = number_of(corners, "xmax"), y2 = number_of(corners, "ymax");
  if (object.name.empty()) {
    out.bad.emplace_back(object.line, "object without name");
  } else if (!x1 || !y1 || !x2 || !y2) {
    out.bad.emplace_back(object.line,
                         "object '" + object.name + "' without four numbers in bndbox");
  } else {
    object.box.x1 = static_cast<float>(*x1);
    object.box.y1 = static_cast<float>(*y1);
    object.box.x2 = static_cast<float>(*x2);
    object.box.y2 = static_cast<float>(*y2);
    out.objects.push_back(std::move(object));
  }
}

}  // namespace

VocFile parse_voc_xml(std::string_view text, const std::string& file) {
  tinyxml2::XMLDocument document;
  const tinyxml2::XMLError error = document.Parse(text.data(), text.size());
  if (error != tinyxml2::XML_SUCCESS)
    fail(file, std::max(document.ErrorLineNum(), 1), describe(error));
  const XMLElement* root = document.RootElement();
  if (root == nullptr) fail(file, 1, "no root element");
  refuse_more_than_a_root(document, file);

  VocFile out;
  const XMLElement* size = root->FirstChildElement("size");
  const double width = number_of(size, "width").value_or(0);
  const double height = number_of(size, "height").value_or(0);
  if (width >= 1 && height >= 1 && width < 1e7 && height < 1e7) {
    out.size = {static_cast<int>(width), static_cast<int>(height)};
  }
  for (const XMLElement* object = root->FirstChildElement("object"); object != nullptr;
       object = object->NextSiblingElement("object")) {
    read_object(object, out);
  }
  return out;
}

}  // namespace sgtrain::data
