// The main function of every test executable: Catch2's own, and two options for ctest.
//
//   --ctest-file FILE FOLDER   writes FILE, a CMake script that adds one ctest test per test case;
//                              every tag of a test case becomes a ctest label
//   --exact NAME               runs the one test case of that name, whatever characters are in it
//
// Under --exact a test case that asserts nothing fails, because such a test cannot fail. The
// exception is one tagged [data] or [peer]: what it needs is not there, so it counts as skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;  // SKIP_RETURN_CODE of every test

std::size_t assertions_made = 0;

struct AssertionCounter final : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    assertions_made += stats.totals.assertions.total();
  }
};
CATCH_REGISTER_LISTENER(AssertionCounter)

const std::vector<Catch::TestCase>& all_tests() {
  return Catch::getRegistryHub().getTestCaseRegistry().getAllTests();
}

bool needs_outside_data(const std::string& test_name) {
  for (const auto& test : all_tests()) {
    if (test.name != test_name) continue;
    for (const auto& tag : test.lcaseTags) {
      if (tag == "data" || tag == "peer") return true;
    }
  }
  return false;
}

/// A CMake bracket argument, which needs no escapes.
std::string bracket(const std::string& text) {
  return "[==[" + text + "]==]";
}

/// A pattern of Catch2 that matches `name` only.
std::string exact_pattern(const std::string& name) {
  std::string pattern = "\"";
  for (const char c : name) {
    if (c == '\\' || c == ',' || c == '"') pattern += '\\';
    pattern += c;
  }
  return pattern + "\"";
}

int write_ctest_file(const std::string& executable, const std::string& path,
                     const std::string& folder) {
  std::ofstream out(path);
  for (const auto& test : all_tests()) {
    const std::string name = bracket(folder + ": " + test.name);
    std::string labels = folder;
    for (const auto& tag : test.lcaseTags) labels += ";" + tag;
    const bool is_soak = labels.find(";soak") != std::string::npos;
    out << "add_test(" << name << " " << bracket(executable) << " --exact " << bracket(test.name)
        << ")\nset_tests_properties(" << name << " PROPERTIES LABELS " << bracket(labels)
        << " SKIP_RETURN_CODE " << kSkipped << " ENVIRONMENT [==[OMP_NUM_THREADS=1]==] TIMEOUT "
        << (is_soak ? 7200 : 600) << (test.isHidden() ? " DISABLED TRUE" : "") << ")\n";
  }
  out.flush();
  if (!out) std::fprintf(stderr, "cannot write %s\n", path.c_str());
  return out ? 0 : 1;
}

int run_exact(Catch::Session& session, const std::string& name) {
  const bool may_skip = needs_outside_data(name);
  auto& config = session.configData();
  config.testsOrTags = {exact_pattern(name)};
  int warnings = config.warnings | Catch::WarnAbout::NoTests;
  if (!may_skip) warnings |= Catch::WarnAbout::NoAssertions;
  config.warnings = static_cast<Catch::WarnAbout::What>(warnings);
  const int result = session.run();
  return result == 0 && may_skip && assertions_made == 0 ? kSkipped : result;
}

}  // namespace

int main(int argc, char** argv) {
  Catch::Session session;
  if (argc == 4 && std::strcmp(argv[1], "--ctest-file") == 0) {
    return write_ctest_file(std::filesystem::absolute(argv[0]), argv[2], argv[3]);
  }
  if (argc == 3 && std::strcmp(argv[1], "--exact") == 0) return run_exact(session, argv[2]);
  return session.run(argc, argv);
}
