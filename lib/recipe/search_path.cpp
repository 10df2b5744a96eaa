#include "recipe/search_path.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml.h"

namespace sgtrain::recipe {
namespace {

namespace fs = std::filesystem;
using core::Tree;
using core::TreePtr;

/// Value of "# @name value" at the top; nullopt when there is none. `anywhere`: also after comments
/// of another kind, where Hydra looks no further.
std::optional<std::string> header(std::string_view text, std::string_view name, bool anywhere) {
  const std::string wanted = "@" + std::string(name);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = core::trim(text.substr(begin, end - begin));
    begin = end + 1;
    if (line.empty()) continue;
    if (line.front() != '#') return std::nullopt;
    line = core::trim(line.substr(1));
    if (!anywhere && !line.starts_with("@")) return std::nullopt;
    if (!line.starts_with(wanted)) continue;
    const std::string_view value = line.substr(wanted.size());
    if (!value.empty() && value.front() != ' ' && value.front() != '\t') continue;
    return std::string(core::trim(value));
  }
  return std::nullopt;
}

bool take_keyword(std::string& text, std::string_view keyword) {
  const std::string start = std::string(keyword) + " ";
  if (!text.starts_with(start)) return false;
  text = std::string(core::trim(std::string_view(text).substr(start.size())));
  return true;
}

class DefaultsReader {
 public:
  explicit DefaultsReader(core::Problems& problems) : problems_(problems) {}

  std::vector<DefaultEntry> read(const Tree& list) {
    std::vector<DefaultEntry> out;
    if (list.kind == Tree::Kind::kNull) return out;
    if (!list.is_list()) {
      bad(list, "must be a list of 'group: name' and 'name' entries, found " +
                    std::string(kind_name(list.kind)));
      return out;
    }
    bool has_self = false;
    for (const TreePtr& item : list.list) {
      if (auto entry = read_entry(*item)) {
        if (entry->is_self() && has_self)
          bad(*item, "_self_ is given twice");
        else
          out.push_back(*std::move(entry));
        has_self = has_self || out.back().is_self();
      }
    }
    return out;
  }

 private:
  void bad(const Tree& at, const std::string& what) {
    problems_.add(at.mark.str(), "defaults", what);
  }

  std::optional<DefaultEntry> read_entry(const Tree& item) {
    DefaultEntry entry;
    entry.mark = item.mark;
    if (item.kind == Tree::Kind::kString) {
      std::string text = item.text;
      while (take_keyword(text, "optional")) entry.optional = true;
      std::tie(entry.path, entry.package) = split_package(text);
      if (entry.is_self() && entry.package) {
        bad(item, "_self_ takes no @package");
        return std::nullopt;
      }
      return entry;
    }
    if (!item.is_map() || item.map.size() != 1) {
      bad(item, "an entry is '_self_', 'name' or 'group: name', found " +
                    (item.is_map() ? "a map of " + std::to_string(item.map.size()) +
                                         " keys (one '-' for each)"
                                   : std::string(kind_name(item.kind))));
      return std::nullopt;
    }
    entry.is_group = true;
    std::string text = item.map.front().first;
    for (;;) {
      if (take_keyword(text, "optional"))
        entry.optional = true;
      else if (take_keyword(text, "override"))
        entry.overrides = true;
      else
        break;
    }
    std::tie(entry.path, entry.package) = split_package(text);
    const Tree& value = *item.map.front().second;
    if (value.kind == Tree::Kind::kString || value.kind == Tree::Kind::kMissing) {
      entry.name = value.text;
    } else if (value.is_list()) {
      entry.is_options = true;
      for (const TreePtr& option : value.list) {
        if (option->kind != Tree::Kind::kString) {
          bad(*option,
              "the list of a group holds names, found " + std::string(kind_name(option->kind)));
        } else {
          entry.options.push_back(option->text);
        }
      }
    } else if (value.kind != Tree::Kind::kNull) {
      bad(item, "group '" + entry.path + "' takes the name of a file, found " + value.text);
      return std::nullopt;
    }
    return entry;
  }

  core::Problems& problems_;
};

}  // namespace

std::pair<std::string, std::optional<std::string>> split_package(std::string_view text) {
  const auto at = text.find('@');
  if (at == std::string_view::npos) return {std::string(text), std::nullopt};
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

SearchPath::SearchPath(std::vector<fs::path> folders, core::Problems& problems)
    : problems_(problems) {
  for (fs::path& folder : folders) {
    std::error_code error;
    const bool known = std::find(folders_.begin(), folders_.end(), folder) != folders_.end();
    if (!known && fs::is_directory(folder, error)) folders_.push_back(std::move(folder));
  }
}

std::optional<fs::path> SearchPath::find(const std::string& path) const {
  for (const fs::path& folder : folders_) {
    for (const char* extension : {".yaml", ".yml"}) {
      const fs::path file = folder / (path + extension);
      std::error_code error;
      if (fs::is_regular_file(file, error)) return file;
    }
  }
  return std::nullopt;
}

std::shared_ptr<const Source> SearchPath::load(const std::string& path) {
  const auto known = loaded_.find(path);
  if (known != loaded_.end()) return known->second;
  const auto file = find(path);
  if (!file) return nullptr;

  auto source = std::make_shared<Source>();
  source->file = *file;
  source->content = Tree::make_map();
  try {
    const std::string text = core::read_text(*file, core::YamlLimits().bytes);
    const TreePtr tree = core::parse_yaml(text, file->string(), problems_);
    if (tree->is_map()) {
      source->content = tree;
    } else if (tree->kind != Tree::Kind::kNull) {
      problems_.add(tree->mark.str(), {},
                    "a recipe is a map of keys, found " + std::string(kind_name(tree->kind)));
    }
    source->package = header(text, "package", false);
    if (const auto variables = header(text, "variables", true)) {
      for (const std::string& name : core::split(*variables, ',')) {
        source->variables.emplace_back(core::trim(name));
      }
    }
    if (const TreePtr defaults = source->content->find("defaults")) {
      source->defaults = DefaultsReader(problems_).read(*defaults);
      source->content->erase("defaults");
    }
  } catch (const core::InputError& error) {
    problems_.add({}, {}, error.what());
  }
  loaded_[path] = source;
  return source;
}

bool SearchPath::group_exists(const std::string& group) const {
  std::error_code error;
  return !group.empty() &&
         std::any_of(folders_.begin(), folders_.end(), [&](const fs::path& folder) {
           return fs::is_directory(folder / group, error);
         });
}

std::vector<std::string> SearchPath::options(const std::string& group) const {
  std::set<std::string> names;
  for (const fs::path& folder : folders_) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder / group, error)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".yaml" || file.extension() == ".yml")
        names.insert(file.stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> SearchPath::groups() const {
  std::set<std::string> names;
  for (const fs::path& folder : folders_) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory(error) && !name.starts_with(".") && !options(name).empty())
        names.insert(name);
    }
  }
  return {names.begin(), names.end()};
}

std::vector<fs::path> shipped_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error)
    folders.push_back((executable.parent_path() / "../share/sgtrain/recipes").lexically_normal());
  folders.emplace_back(SGTRAIN_SOURCE_RECIPES);
  return folders;
}

}  // namespace sgtrain::recipe
