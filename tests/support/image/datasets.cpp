#include "support/datasets.h"

#include "core/error.h"
#include "core/yaml.h"

namespace sgtrain::support {

std::unique_ptr<data::Dataset> open_dataset(const std::string& name, const std::string& yaml,
                                            const data::Paths& paths) {
  auto problems = std::make_shared<core::Problems>();
  core::Node node(core::parse_yaml(yaml, "recipe.yaml"), problems);
  const auto maker = data::Dataset::registry().parse({name, node});
  node.report_unread();
  problems->throw_if_any("recipe.yaml");
  return maker(paths);
}

std::string open_error(const std::string& name, const std::string& yaml, const data::Paths& paths) {
  try {
    open_dataset(name, yaml, paths);
  } catch (const core::InputError& error) {
    return error.what();
  }
  return "opened";
}

}  // namespace sgtrain::support
