#include "recipe/defaults.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/text.h"
#include "recipe/interpolation.h"

namespace sgtrain::recipe {
namespace {

using core::Tree;
using core::TreePtr;

constexpr std::string_view kGlobal = "_global_";
constexpr std::size_t kMaxFiles = 1000;  // of one recipe

std::string dots(std::string text) {
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

/// A defaults entry that knows where it stands. Names follow Hydra's documentation of the
/// defaults list; "final package" is where content lands.
struct Element {
  DefaultEntry entry;
  std::string base;  // group path of the file that holds the entry
  std::string parent_package;
  std::optional<std::string> header;  // package header of the file it names
  bool external = false;              // from the command line (+group=name)
  bool primary = false;

  bool absolute() const { return entry.path.starts_with("/"); }
  std::string relative() const { return absolute() ? entry.path.substr(1) : entry.path; }
  std::string below_base(const std::string& path) const {
    if (absolute() || base.empty()) return path;
    return path.empty() ? base : base + "/" + path;
  }
  /// Folder part of a plain entry, or the group itself.
  std::string relative_group() const {
    if (entry.is_group) return relative();
    const auto slash = relative().rfind('/');
    return slash == std::string::npos ? std::string() : relative().substr(0, slash);
  }
  std::string group_path() const { return below_base(relative_group()); }
  std::string config_path() const {
    return entry.is_group ? group_path() + "/" + entry.name.value_or("") : below_base(relative());
  }
  std::string final_package(bool with_header = true) const {
    std::optional<std::string> package = entry.package;
    if (package && *package == "_here_") package = "";
    if (package) {
      if (const auto at = package->find("_group_"); at != std::string::npos) {
        package->replace(at, 7, dots(group_path()));
        package = std::string(kGlobal) + "." + *package;
      }
    }
    if (!package && with_header) package = header;
    const std::string own = package ? *package : dots(relative_group());
    const std::string full = parent_package.empty() ? own
                             : own.empty()          ? parent_package
                                                    : parent_package + "." + own;
    const auto last = full.rfind(kGlobal);
    if (last == std::string::npos) return full;
    return full.substr(std::min(full.size(), last + kGlobal.size() + 1));
  }
  /// "group" or "group@package": what an override of this entry is called.
  std::string override_key() const {
    const std::string usual = dots(group_path());
    const std::string actual = final_package(false);
    if (usual == actual) return group_path();
    return group_path() + "@" + (actual.empty() ? std::string(kGlobal) : actual);
  }
  bool interpolates() const {
    return entry.is_group ? entry.name && entry.name->find("${") != std::string::npos
                          : entry.path.find("${") != std::string::npos;
  }
};

struct Choice {
  std::optional<std::string> name;  // nullopt: null
  std::vector<std::string> options;
  bool is_options = false;
  bool used = false;
  bool external = false;  // from the command line
  bool optional = false;  // need not match
  core::Mark mark;
};

/// A file with what it includes; a leaf when it has no defaults list.
struct TreeNode {
  Element element;
  bool is_self = false;   // the place of a file's own keys
  bool dropped = false;   // optional and absent, deleted, null, or with a mistake
  bool expanded = false;  // children stand for it
  std::vector<TreeNode> children;
};

class Composer {
 public:
  Composer(SearchPath& files, core::Problems& problems) : files_(files), problems_(problems) {}

  Composition run(const std::string& path, std::vector<Override> overrides) {
    Composition out;
    sort_overrides(std::move(overrides), out);
    Element primary;
    primary.entry.path = path;
    primary.primary = true;
    const TreeNode root = expand(primary, true, false);
    collect(root, nullptr, out);
    report_unused();
    return out;
  }

 private:
  // ------------------------------------------------------------ command line

  void sort_overrides(std::vector<Override> overrides, Composition& out) {
    for (Override& given : overrides) {
      const bool map_value = given.value && given.value->is_map();
      if (!files_.group_exists(given.key) || map_value) {
        out.config_overrides.push_back(std::move(given));
        continue;
      }
      const std::string key = given.package ? given.key + "@" + *given.package : given.key;
      const auto bad = [&](const std::string& what) {
        problems_.add("command line", given.text, what);
      };
      if (given.kind == Override::Kind::kDelete) {
        Choice deletion;
        if (given.value) deletion.name = given.value->text;
        deletions_[key] = deletion;
        continue;
      }
      if (given.kind == Override::Kind::kForce) {
        bad("'++' does not work for a group, write " + given.key + "=name to choose or +" +
            given.key + "=name to add");
        continue;
      }
      Choice choice;
      choice.external = true;
      choice.optional = given.optional;
      choice.mark = command_line_mark();
      if (given.value->kind == Tree::Kind::kString) {
        choice.name = given.value->text;
      } else if (given.value->is_list()) {
        choice.is_options = true;
        for (const TreePtr& item : given.value->list) choice.options.push_back(item->text);
      } else if (given.value->kind != Tree::Kind::kNull) {
        bad("group '" + given.key + "' takes the name of a file, found " + given.value->text);
        continue;
      }
      if (given.kind == Override::Kind::kAdd) {
        DefaultEntry entry;
        entry.is_group = true;
        entry.path = given.key;
        entry.package = given.package;
        entry.name = choice.name;
        entry.options = choice.options;
        entry.is_options = choice.is_options;
        entry.mark = choice.mark;
        appended_.push_back(entry);
      } else {
        choices_[key] = choice;
      }
    }
  }

  void report_unused() {
    for (const auto& [key, choice] : choices_) {
      if (choice.used || choice.optional) continue;
      const std::string group = key.substr(0, key.find('@'));
      const auto known = known_keys_.find(group);
      std::string hint;
      if (known != known_keys_.end()) {
        hint = ", did you mean " +
               core::join(std::vector<std::string>(known->second.begin(), known->second.end()),
                          " or ") +
               "?";
      }
      const std::string value =
          choice.is_options ? "[" + core::join(choice.options) + "]" : choice.name.value_or("null");
      std::string what =
          "no defaults list of this recipe has '" + key + "', so nothing can be chosen" + hint;
      if (choice.external) what += " (to add it, write +" + key + "=" + value + ")";
      problems_.add(choice.mark.str(), key + "=" + value, what);
    }
    for (const auto& [key, deletion] : deletions_) {
      if (deletion.used) continue;
      problems_.add("command line", "~" + key + (deletion.name ? "=" + *deletion.name : ""),
                    "no defaults list of this recipe has it, so nothing can be deleted");
    }
  }

  // ----------------------------------------------------------------- walking

  TreeNode expand(Element element, bool is_root, bool in_interpolated) {
    TreeNode node;
    node.element = std::move(element);
    Element& self = node.element;
    const DefaultEntry& entry = self.entry;
    if (entry.is_group && !entry.name) {
      note_choice(self);
      node.dropped = true;
      return node;
    }
    if (entry.name == "???") {
      problem(entry.mark, "group '" + self.override_key() + "' has no choice (\?\?\?), write " +
                              self.override_key() + "=name (there are: " +
                              core::join(files_.options(self.group_path())) + ")");
      node.dropped = true;
      return node;
    }
    const std::string path = self.config_path();
    const auto source = files_.load(path);
    if (source) set_header(self, source->package);
    if (is_deleted(self)) {
      node.dropped = true;
      return node;
    }
    note_choice(self);
    if (!source) {
      if (!entry.optional) not_found(self, path);
      node.dropped = true;
      return node;
    }
    if (std::find(open_.begin(), open_.end(), path) != open_.end()) {
      problem(entry.mark, "a recipe includes itself: " + core::join(open_, " -> ") + " -> " + path);
      node.dropped = true;
      return node;
    }
    if (++files_read_ > kMaxFiles) {
      if (files_read_ == kMaxFiles + 1)
        problem(entry.mark, "the recipe has more than " + std::to_string(kMaxFiles) + " files");
      node.dropped = true;
      return node;
    }
    open_.push_back(path);
    expand_children(node, *source, is_root, in_interpolated);
    open_.pop_back();
    return node;
  }

  void expand_children(TreeNode& node, const Source& source, bool is_root, bool in_interpolated) {
    const Element& parent = node.element;
    std::vector<DefaultEntry> list = source.defaults;
    const bool has_list = !list.empty() || (is_root && !appended_.empty());
    if (!has_list) return;
    const bool has_self =
        std::any_of(list.begin(), list.end(), [](const DefaultEntry& e) { return e.is_self(); });
    const bool has_choice =
        std::any_of(list.begin(), list.end(), [](const DefaultEntry& e) { return !e.overrides; });
    if ((!has_self && has_choice) || list.empty()) {
      // Without _self_ a file's own keys come last and win (Hydra since 1.1).
      DefaultEntry self;
      self.path = "_self_";
      list.push_back(self);
    }
    const std::size_t own = list.size();
    if (is_root) list.insert(list.end(), appended_.begin(), appended_.end());

    const std::string base = parent.group_path();
    const std::string package = parent.final_package();
    std::vector<Element> elements;
    for (std::size_t i = 0; i < list.size(); ++i) {
      Element element;
      element.entry = list[i];
      element.base = base;
      element.parent_package = package;
      element.external = i >= own;
      elements.push_back(std::move(element));
    }
    take_override_keywords(elements, in_interpolated);

    // From the last to the first, as Hydra does: overrides that later files ask for reach earlier
    // ones.
    std::vector<TreeNode> children;
    std::vector<std::size_t> deferred;
    for (auto it = elements.rbegin(); it != elements.rend(); ++it) {
      Element element = *it;
      if (element.entry.is_self()) {
        TreeNode self;
        self.is_self = true;
        children.push_back(std::move(self));
        continue;
      }
      if (element.entry.overrides) continue;
      apply_choice(element);
      if (element.entry.is_group && element.entry.is_options) {
        for (auto option = element.entry.options.rbegin(); option != element.entry.options.rend();
             ++option) {
          Element one = element;
          one.entry.is_group = false;
          one.entry.is_options = false;
          one.entry.path = element.entry.path + "/" + *option;
          children.push_back(expand(std::move(one), false, in_interpolated));
        }
      } else if (element.interpolates()) {
        deferred.push_back(children.size());
        TreeNode later;
        later.element = std::move(element);
        children.push_back(std::move(later));
      } else {
        children.push_back(expand(std::move(element), false, in_interpolated));
      }
    }
    for (const std::size_t index : deferred) {
      Element element = children[index].element;
      if (resolve_name(element))
        children[index] = expand(std::move(element), false, true);
      else
        children[index].dropped = true;
    }
    std::reverse(children.begin(), children.end());
    node.children = std::move(children);
    node.expanded = !node.children.empty();  // a list of `override` entries alone: the file itself
  }

  void take_override_keywords(std::vector<Element>& elements, bool in_interpolated) {
    bool seen = false;
    for (const Element& element : elements) {
      if (element.entry.is_self()) continue;
      if (seen && !element.entry.overrides && !element.external) {
        problem(element.entry.mark,
                "'override' entries must stand at the end of the defaults list");
      }
      if (!element.entry.is_group || !element.entry.overrides) continue;
      seen = true;
      if (in_interpolated) {
        problem(element.entry.mark,
                "'override' cannot be used in a file that an interpolated choice includes");
        continue;
      }
      Choice choice;
      choice.name = element.entry.name;
      choice.options = element.entry.options;
      choice.is_options = element.entry.is_options;
      choice.mark = element.entry.mark;
      choices_.emplace(element.override_key(), choice);  // what came before (outer files) wins
    }
  }

  void apply_choice(Element& element) {
    if (!element.entry.is_group) return;
    const auto found = choices_.find(element.override_key());
    if (found == choices_.end()) return;
    found->second.used = true;
    element.entry.name = found->second.name;
    element.entry.options = found->second.options;
    element.entry.is_options = found->second.is_options;
    if (found->second.external) element.entry.mark = found->second.mark;
  }

  /// "${group}_suffix": choices made so far stand for the groups' names.
  bool resolve_name(Element& element) {
    std::string& text = element.entry.is_group ? *element.entry.name : element.entry.path;
    const TreePtr scope = Tree::make_map();
    for (const auto& [key, name] : known_choices_)
      scope->set(key, name ? Tree::of(*name) : Tree::null());
    for (const auto& [key, choice] : choices_) {
      if (choice.external && choice.name && !scope->find(key))
        scope->set(key, Tree::of(*choice.name));
    }
    scope->set("name of the file", Tree::of(text, element.entry.mark));
    core::Problems wrong;
    const TreePtr value = Interpolator(scope, wrong).resolve_at("name of the file");
    if (!value || value->kind != Tree::Kind::kString) {
      std::vector<std::string> known;
      for (const auto& [key, name] : known_choices_) known.push_back(key);
      problem(
          element.entry.mark,
          "'" + text +
              "' cannot be resolved: in a defaults list the groups chosen before can be named (" +
              core::join(known) + ")");
      return false;
    }
    text = value->text;
    return true;
  }

  // ------------------------------------------------------------ single entries

  static void set_header(Element& element, const std::optional<std::string>& package) {
    if (!package) return;
    if (package->empty())
      element.header = std::string(kGlobal);
    else if (*package == kGlobal || package->starts_with(std::string(kGlobal) + "."))
      element.header = *package;
    else if (*package == "_group_")
      element.header = std::nullopt;
    else
      element.header = std::string(kGlobal) + "." + *package;
  }

  bool is_deleted(const Element& element) {
    if (!element.entry.is_group) return false;
    const auto found = deletions_.find(element.override_key());
    if (found == deletions_.end()) return false;
    if (found->second.name && found->second.name != element.entry.name) return false;
    found->second.used = true;
    return true;
  }

  void note_choice(const Element& element) {
    if (!element.entry.is_group) return;
    const std::string key = element.override_key();
    const auto [known, fresh] = known_choices_.emplace(key, element.entry.name);
    if (!fresh && known->second != element.entry.name) {
      problem(element.entry.mark, "group '" + key + "' is chosen twice: '" +
                                      known->second.value_or("null") + "' and '" +
                                      element.entry.name.value_or("null") +
                                      "'; to replace a choice write 'override " + key + ": " +
                                      known->second.value_or("null") + "'");
    }
    known_keys_[element.group_path()].insert(key);
  }

  void not_found(const Element& element, const std::string& path) {
    std::vector<std::string> folders;
    for (const auto& folder : files_.folders()) {
      folders.push_back(
          std::filesystem::absolute(folder / (path + ".yaml")).lexically_normal().string());
    }
    std::string what;
    if (element.entry.is_group) {
      const auto options = files_.options(element.group_path());
      what = "group '" + element.group_path() + "' has no file '" +
             element.entry.name.value_or("") + "'" +
             core::did_you_mean(element.entry.name.value_or(""), options) +
             (options.empty() ? "" : " (there are: " + core::join(options) + ")");
    } else {
      std::string name = path;
      std::string group;
      if (const auto slash = path.rfind('/'); slash != std::string::npos) {
        group = path.substr(0, slash);
        name = path.substr(slash + 1);
      }
      what = "there is no recipe '" + path + "' to include" +
             core::did_you_mean(name, files_.options(group));
    }
    problem(element.entry.mark, what + "; looked for\n      " + core::join(folders, "\n      "));
  }

  void problem(const core::Mark& mark, const std::string& what) {
    problems_.add(mark.str(), mark.str() == "command line" ? "" : "defaults", what);
  }

  // ------------------------------------------------------------------ result

  void collect(const TreeNode& node, const TreeNode* parent, Composition& out) {
    if (node.dropped) return;
    if (node.expanded) {
      for (const TreeNode& child : node.children) collect(child, &node, out);
      return;
    }
    const Element& element = node.is_self ? parent->element : node.element;
    const std::string path = element.config_path();
    if (!node.is_self && element.entry.is_group && !listed_.insert(element.override_key()).second) {
      problem(element.entry.mark, "group '" + element.override_key() +
                                      "' appears more than once in the defaults lists");
    }
    Step step;
    step.path = path;
    step.source = files_.load(path);
    for (const std::string& key : core::split(element.final_package(), '.')) {
      if (!key.empty()) step.package.push_back(key);
    }
    if (step.source) out.steps.push_back(std::move(step));
  }

  SearchPath& files_;
  core::Problems& problems_;
  std::map<std::string, Choice> choices_;  // by override key
  std::map<std::string, Choice> deletions_;
  std::vector<DefaultEntry> appended_;
  std::map<std::string, std::optional<std::string>> known_choices_;
  std::map<std::string, std::set<std::string>> known_keys_;  // by group
  std::set<std::string> listed_;
  std::vector<std::string> open_;  // files being expanded
  std::size_t files_read_ = 0;
};

}  // namespace

Composition compose_defaults(const std::string& path, std::vector<Override> overrides,
                             SearchPath& files, core::Problems& problems) {
  return Composer(files, problems).run(path, std::move(overrides));
}

}  // namespace sgtrain::recipe
