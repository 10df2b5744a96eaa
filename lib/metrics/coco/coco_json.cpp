#include "metrics/coco/coco_json.h"

#include <simdjson.h>

#include <string>
#include <string_view>

#include "core/error.h"

namespace sgtrain::metrics {
namespace {

namespace ondemand = simdjson::ondemand;

/// Says which entry of which file is being read when something is wrong with it.
struct Place {
  std::string file;
  std::string_view list;
  std::size_t entry = 0;

  std::string str() const {
    return list.empty() ? file
                        : file + ", " + std::string(list) + "[" + std::to_string(entry) + "]";
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw core::InputError(what, str(), "see https://cocodataset.org/#format-data for the format");
  }
};

/// Opens a file and runs `read(document)`; every error names file and entry.
template <class Read>
void with_document(Place& place, Read read) {
  simdjson::padded_string json;
  if (simdjson::padded_string::load(place.file).get(json) != simdjson::SUCCESS) {
    throw core::InputError("cannot read the file", place.file);
  }
  try {
    ondemand::parser parser;
    ondemand::document document;
    const auto error = parser.iterate(json).get(document);
    if (error == simdjson::CAPACITY) place.fail("larger than 4 GiB, the most that is read");
    if (error != simdjson::SUCCESS)
      place.fail(std::string("not JSON: ") + simdjson::error_message(error));
    read(document);
    if (document.current_location().error() == simdjson::SUCCESS) {
      place.fail("something follows the end of the JSON value");
    }
  } catch (const simdjson::simdjson_error& error) {
    place.fail(std::string("cannot be read: ") + error.what());
  }
}

/// An integer, also when written as 3.0.
std::int64_t integer(ondemand::value value, const Place& place, std::string_view key) {
  ondemand::number number;
  if (value.get_number().get(number) != simdjson::SUCCESS) {
    place.fail("'" + std::string(key) + "' must be an integer");
  }
  if (number.is_int64()) return number.get_int64();
  const double real = number.as_double();
  constexpr double kLimit = 9007199254740992.0;  // above, a double skips integers
  if (!(real >= -kLimit && real <= kLimit) ||
      real != static_cast<double>(static_cast<std::int64_t>(real))) {
    place.fail("'" + std::string(key) + "' must be an integer");
  }
  return static_cast<std::int64_t>(real);
}

double real(ondemand::value value, const Place& place, std::string_view key) {
  double out = 0;
  if (value.get_double().get(out) != simdjson::SUCCESS) {
    place.fail("'" + std::string(key) + "' must be a number");
  }
  return out;
}

template <class Box>
void read_box(ondemand::value value, const Place& place, Box& box) {
  const std::array<double*, 4> slots = {&box.x, &box.y, &box.w, &box.h};
  std::size_t count = 0;
  ondemand::array numbers;
  if (value.get_array().get(numbers) != simdjson::SUCCESS)
    place.fail("'bbox' must be a list of 4 numbers");
  for (auto number : numbers) {
    if (count == slots.size()) place.fail("'bbox' must be a list of 4 numbers");
    *slots[count++] = real(number.value(), place, "bbox");
  }
  if (count != slots.size()) place.fail("'bbox' must be a list of 4 numbers");
}

/// true when the value is null: then the field counts as absent.
bool absent(ondemand::value& value) {
  return value.type().value() == ondemand::json_type::null;
}

CocoObject read_object(ondemand::object fields, const Place& place) {
  CocoObject out;
  bool has_image = false, has_category = false, has_box = false, has_area = false;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    ondemand::value value = field.value();
    if (key == "image_id") {
      out.image = integer(value, place, key);
      has_image = true;
    } else if (key == "category_id") {
      out.category = integer(value, place, key);
      has_category = true;
    } else if (key == "bbox") {
      read_box(value, place, out);
      has_box = true;
    } else if (key == "area") {
      has_area = !absent(value);
      if (has_area) out.area = real(value, place, key);
    } else if (key == "iscrowd") {
      bool flag = false;
      if (value.type().value() == ondemand::json_type::boolean) {
        flag = value.get_bool();
      } else if (!absent(value)) {
        flag = integer(value, place, key) != 0;
      }
      out.crowd = flag;
    }
  }
  if (!has_image || !has_category || !has_box) {
    place.fail("an annotation needs 'image_id', 'category_id' and 'bbox'");
  }
  if (!has_area) out.area = out.w * out.h;
  return out;
}

CocoDetection read_detection(ondemand::object fields, const Place& place) {
  CocoDetection out;
  unsigned seen = 0;
  for (auto field : fields) {
    const std::string_view key = field.unescaped_key();
    if (key == "image_id") {
      out.image = integer(field.value(), place, key);
      seen |= 1;
    } else if (key == "category_id") {
      out.category = integer(field.value(), place, key);
      seen |= 2;
    } else if (key == "bbox") {
      read_box(field.value(), place, out);
      seen |= 4;
    } else if (key == "score") {
      out.score = real(field.value(), place, key);
      seen |= 8;
    }
  }
  if (seen != 15) place.fail("a result needs 'image_id', 'category_id', 'bbox' and 'score'");
  return out;
}

ondemand::object as_object(ondemand::value value, const Place& place) {
  ondemand::object out;
  if (value.get_object().get(out) != simdjson::SUCCESS) place.fail("must be an object {…}");
  return out;
}

template <class Read>
void read_list(ondemand::value value, Place& place, std::string_view name, Read read) {
  place.list = name;
  place.entry = 0;
  ondemand::array list;
  if (value.get_array().get(list) != simdjson::SUCCESS) {
    place.list = {};
    place.fail("'" + std::string(name) + "' must be a list");
  }
  for (auto entry : list) {
    read(as_object(entry.value(), place));
    ++place.entry;
  }
  place.list = {};
}

}  // namespace

CocoGroundTruth read_coco_ground_truth(const std::filesystem::path& file) {
  CocoGroundTruth out;
  Place place{file.string(), {}};
  bool has_images = false, has_categories = false, has_annotations = false;
  with_document(place, [&](ondemand::document& document) {
    ondemand::object root;
    if (document.get_object().get(root) != simdjson::SUCCESS) place.fail("must be an object {…}");
    for (auto field : root) {
      const std::string_view key = field.unescaped_key();
      if (key == "images") {
        has_images = true;
        read_list(field.value(), place, "images", [&](ondemand::object image) {
          ondemand::value id;
          if (image["id"].get(id) != simdjson::SUCCESS) place.fail("an image needs 'id'");
          out.images.push_back(integer(id, place, "id"));
        });
      } else if (key == "categories") {
        has_categories = true;
        read_list(field.value(), place, "categories", [&](ondemand::object fields) {
          CocoCategory category;
          bool has_id = false;
          for (auto entry : fields) {
            const std::string_view name = entry.unescaped_key();
            if (name == "id") {
              category.id = integer(entry.value(), place, name);
              has_id = true;
            } else if (name == "name") {
              std::string_view text;
              if (entry.value().get_string().get(text) == simdjson::SUCCESS) category.name = text;
            }
          }
          if (!has_id) place.fail("a category needs 'id'");
          out.categories.push_back(std::move(category));
        });
      } else if (key == "annotations") {
        has_annotations = true;
        read_list(field.value(), place, "annotations", [&](ondemand::object fields) {
          out.objects.push_back(read_object(fields, place));
        });
      }
    }
  });
  if (!has_images || !has_categories || !has_annotations) {
    place.fail("ground truth needs the lists 'images', 'categories' and 'annotations'");
  }
  return out;
}

std::vector<CocoDetection> read_coco_results(const std::filesystem::path& file) {
  std::vector<CocoDetection> out;
  Place place{file.string(), "results"};
  with_document(place, [&](ondemand::document& document) {
    ondemand::array list;
    if (document.get_array().get(list) != simdjson::SUCCESS) {
      place.list = {};
      place.fail(
          "results must be a list [{\"image_id\": …, \"category_id\": …, \"bbox\": …, \"score\": "
          "…}, …]");
    }
    for (auto entry : list) {
      out.push_back(read_detection(as_object(entry.value(), place), place));
      ++place.entry;
    }
  });
  return out;
}

}  // namespace sgtrain::metrics
