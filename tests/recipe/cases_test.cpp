// One folder per case below tests/recipe/cases: main.yaml and the files it includes, overrides.txt
// (one per line), options.txt (allow_missing, no_short_keys), and either expected.yaml (the tree,
// types and key order included) or expected_error.txt (lines that the message must hold; <dir> is
// the case's folder). Expected trees without short keys were computed with Hydra 1.3 and
// OmegaConf 2.3.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/text.h"
#include "core/yaml.h"
#include "core/yaml_writer.h"
#include "recipe/recipe.h"

namespace sgtrain {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> lines_of(const fs::path& file) {
  std::vector<std::string> lines;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string with_folder(std::string text, const fs::path& folder) {
  for (auto at = text.find("<dir>"); at != std::string::npos; at = text.find("<dir>", at)) {
    text.replace(at, 5, folder.string());
  }
  return text;
}

recipe::LoadOptions options_of(const fs::path& folder) {
  recipe::LoadOptions options;
  options.recipe = (folder / "main.yaml").string();
  options.overrides = lines_of(folder / "overrides.txt");
  for (const std::string& line : lines_of(folder / "options.txt")) {
    options.allow_missing = options.allow_missing || line == "allow_missing";
    options.apply_shortcuts = options.apply_shortcuts && line != "no_short_keys";
  }
  return options;
}

void expect_tree(const fs::path& folder) {
  const recipe::LoadOptions options = options_of(folder);
  const recipe::Recipe got = recipe::load(options);
  const core::TreePtr wanted = core::load_yaml(folder / "expected.yaml");
  INFO("got:\n" << core::write_yaml(*got.tree) << "wanted:\n" << core::write_yaml(*wanted));
  CHECK(core::equal(*got.tree, *wanted));

  // The written recipe is the same run: it loads to an equal tree.
  const fs::path written =
      fs::temp_directory_path() / ("recipe_case_" + folder.filename().string() + ".yaml");
  std::ofstream(written) << recipe::to_yaml(got);
  recipe::LoadOptions again;
  again.recipe = written.string();
  again.allow_missing = options.allow_missing;
  const recipe::Recipe reloaded = recipe::load(again);
  INFO("written:\n" << recipe::to_yaml(got));
  CHECK(core::equal(*got.tree, *reloaded.tree));
  CHECK(reloaded.variables.size() >= got.variables.size());
  fs::remove(written);
}

void expect_error(const fs::path& folder) {
  std::string message;
  try {
    recipe::load(options_of(folder));
  } catch (const core::InputError& error) {
    CHECK(error.exit_code() == core::ExitCode::kBadInput);
    message = error.what();
  }
  INFO("message:\n" << message);
  REQUIRE_FALSE(message.empty());
  for (const std::string& line : lines_of(folder / "expected_error.txt")) {
    const std::string wanted(core::trim(with_folder(line, folder)));
    INFO("wanted line: " << wanted);
    CHECK(message.find(wanted) != std::string::npos);
  }
}

TEST_CASE("Recipe cases") {
  ::setenv("SGTRAIN_TEST_VALUE", "from the environment", 1);
  ::unsetenv("SGTRAIN_TEST_UNSET");
  const fs::path root = fs::path(SGTRAIN_SOURCE_DIR) / "tests/recipe/cases";
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    const fs::path folder = entry.path();
    INFO("case " << folder.filename().string());
    const bool error = fs::exists(folder / "expected_error.txt");
    REQUIRE(error != fs::exists(folder / "expected.yaml"));
    if (error)
      expect_error(folder);
    else
      expect_tree(folder);
    ++count;
  }
  CHECK(count >= 100);
}

}  // namespace
}  // namespace sgtrain
