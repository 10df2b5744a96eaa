#include "data/formats/data_yaml.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/yaml.h"

namespace sgtrain::data {
namespace {

/// A text or a list of texts.
std::vector<std::string> texts(const core::TreePtr& tree) {
  if (!tree || tree->kind == core::Tree::Kind::kNull) return {};
  if (!tree->is_list()) return {tree->text};
  std::vector<std::string> out;
  for (const core::TreePtr& item : tree->list) out.push_back(item->text);
  return out;
}

/// A list, or a map from index to name.
std::vector<std::string> read_names(const core::TreePtr& tree) {
  if (!tree->is_map()) return texts(tree);
  std::vector<std::string> out(tree->map.size());
  std::vector<bool> seen(out.size(), false);
  for (const auto& [key, name] : tree->map) {
    const core::TreePtr index = core::plain_scalar(key);
    const bool good = index->kind == core::Tree::Kind::kInt && index->integer >= 0 &&
                      index->integer < static_cast<std::int64_t>(out.size()) &&
                      !seen[static_cast<std::size_t>(index->integer)];
    if (!good) {
      throw core::InputError(
          fmt::format("names: expected the keys 0..{}, got '{}'", out.size() - 1, key),
          name->mark.str());
    }
    seen[static_cast<std::size_t>(index->integer)] = true;
    out[static_cast<std::size_t>(index->integer)] = name->text;
  }
  return out;
}

}  // namespace

DataYaml DataYaml::read(const std::filesystem::path& file) {
  const core::TreePtr tree = core::load_yaml(file);
  if (!tree->is_map())
    throw core::InputError("expected a map with names, train and val", file.native());
  DataYaml data;
  data.file = file;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  const auto root = texts(tree->find("path"));
  data.root =
      root.empty() || root.front().empty() ? folder : (folder / root.front()).lexically_normal();
  data.train = texts(tree->find("train"));
  data.val = texts(tree->find("val"));
  if (data.val.empty()) data.val = texts(tree->find("valid"));
  data.test = texts(tree->find("test"));
  const core::TreePtr names = tree->find("names");
  if (!names || (!names->is_list() && !names->is_map())) {
    throw core::InputError("'names' must list the classes", file.native());
  }
  data.names = read_names(names);
  const core::TreePtr nc = tree->find("nc");
  if (nc && nc->kind == core::Tree::Kind::kInt &&
      nc->integer != static_cast<std::int64_t>(data.names.size())) {
    throw core::InputError(
        fmt::format("nc is {}, but names lists {} classes", nc->integer, data.names.size()),
        nc->mark.str());
  }
  return data;
}

const std::vector<std::string>& DataYaml::split(const std::string& name) const {
  const auto& found = name == "train" ? train : name == "test" ? test : val;
  if (found.empty()) {
    throw core::InputError("no '" + name + "' in the data file", file.native());
  }
  return found;
}

}  // namespace sgtrain::data
