// Registries of components: a new model, loss, transform … is one file whose last line registers
// it.
//
//   class Loss { public: using Registry = core::Registry<Loss>; static Registry& registry(); … };
//   Loss::Registry& Loss::registry() { static Registry r("loss"); return r; }      // in loss.cpp
//   SGTRAIN_REGISTER(Loss, KDLogitsLoss, "KDLogitsLoss", "kd_logits_loss");         // last line
//
// Parsing (names and parameters, all mistakes collected) and building are two steps, so that
// `sgtrain check` finds every mistake without building anything.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/node.h"
#include "core/text.h"

namespace sgtrain::core {

/// Builds one component from parameters that were parsed before.
template <class Interface, class... Args>
using Maker = std::function<std::unique_ptr<Interface>(Args...)>;

template <class Interface, class... Args>
class Registry {
 public:
  using MakerType = Maker<Interface, Args...>;
  struct Entry {
    std::vector<std::string> names;  // canonical first, then aliases
    std::function<MakerType(Node&)> parse;
    std::string file;  // source file and line of the registration, for `sgtrain list`
    int line = 0;
  };

  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  /// Registers class C, made from `typename C::Params` (with `static Params from(Node&)`) when it
  /// has one, else from nothing.
  template <class C>
  bool add(std::vector<std::string> names, const char* file, int line) {
    return add_parser(std::move(names), file, line, [](Node& node) -> MakerType {
      if constexpr (requires { typename C::Params; }) {
        auto params = C::Params::from(node);
        return [params](Args... args) { return std::make_unique<C>(params, args...); };
      } else {
        static_cast<void>(node);
        return [](Args... args) { return std::make_unique<C>(args...); };
      }
    });
  }
  bool add_parser(std::vector<std::string> names, const char* file, int line,
                  std::function<MakerType(Node&)> parse) {
    entries_.push_back({std::move(names), std::move(parse), file, line});
    return true;
  }

  /// Exact name first, then the fuzzy key; nullptr when unknown.
  const Entry* find(std::string_view name) const {
    for (const bool fuzzy : {false, true}) {
      for (const Entry& entry : entries_) {
        for (const std::string& candidate : entry.names) {
          if (fuzzy ? fuzzy_key(candidate) == fuzzy_key(name) : candidate == name) return &entry;
        }
      }
    }
    return nullptr;
  }

  /// Parses name and parameters. Unknown names and wrong parameters become problems of the node;
  /// the maker is then empty.
  MakerType parse(Component component) const {
    if (component.name.empty()) return {};  // already reported, or being described
    const Entry* entry = find(component.name);
    if (entry == nullptr) {
      component.params.problem(unknown(component.name));
      component.params.read_all();
      return {};
    }
    return entry->parse(component.params);
  }

  std::string unknown(std::string_view name) const {
    const auto all = names();
    return "unknown " + kind_ + " '" + std::string(name) + "'" + did_you_mean(name, all) +
           " (known: " + join(all) + ")";
  }

  /// Canonical names, sorted.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Entry& entry : entries_) out.push_back(entry.names.front());
    std::sort(out.begin(), out.end());
    return out;
  }
  const std::vector<Entry>& entries() const { return entries_; }
  const std::string& kind() const { return kind_; }

  /// Parameters of an entry with types and defaults, as its parser asks for them.
  static std::vector<KeyDoc> describe(const Entry& entry) {
    auto docs = std::make_shared<std::vector<std::unique_ptr<KeyDoc>>>();
    Node probe = Node::describe(docs);
    entry.parse(probe);
    std::vector<KeyDoc> out;
    for (const auto& doc : *docs) out.push_back(*doc);
    return out;
  }

 private:
  std::string kind_;
  std::vector<Entry> entries_;
};

}  // namespace sgtrain::core

#define SGTRAIN_CONCAT_IMPL(a, b) a##b
#define SGTRAIN_CONCAT(a, b) SGTRAIN_CONCAT_IMPL(a, b)

/// SGTRAIN_REGISTER(Interface, Class, "Name", "alias"…): last line of the file.
#define SGTRAIN_REGISTER(Interface, Class, ...)                                 \
  [[maybe_unused]] static const bool SGTRAIN_CONCAT(kRegistered, __COUNTER__) = \
      Interface::registry().add<Class>({__VA_ARGS__}, __FILE__, __LINE__)

/// SGTRAIN_REGISTER_PARSER(Interface, parse, "Name"…): presets of one class; `parse` is
/// `Interface::Registry::MakerType(core::Node&)`.
#define SGTRAIN_REGISTER_PARSER(Interface, parse, ...)                          \
  [[maybe_unused]] static const bool SGTRAIN_CONCAT(kRegistered, __COUNTER__) = \
      Interface::registry().add_parser({__VA_ARGS__}, __FILE__, __LINE__, parse)
