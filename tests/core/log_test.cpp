#include "core/log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "core/error.h"
#include "support/temp_dir.h"

using namespace sgtrain;
using core::log::Level;

namespace {

// What runs inside writes stdout and stderr to files.
class Capture {
 public:
  Capture() {
    std::fflush(nullptr);
    for (const int fd : {1, 2}) {
      saved_[fd - 1] = dup(fd);
      const int file = open(path(fd).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(file, fd);
      close(file);
    }
  }
  ~Capture() { restore(); }
  std::string out() { return read(1); }
  std::string err() { return read(2); }

 private:
  std::filesystem::path path(int fd) const { return dir_.path() / std::to_string(fd); }
  void restore() {
    for (const int fd : {1, 2}) {
      if (saved_[fd - 1] < 0) continue;
      dup2(saved_[fd - 1], fd);
      close(saved_[fd - 1]);
      saved_[fd - 1] = -1;
    }
  }
  std::string read(int fd) {
    restore();
    std::ifstream in(path(fd));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  support::TempDir dir_;
  int saved_[2];
};

struct Restore {
  core::log::Options old = core::log::options();
  ~Restore() { core::log::configure(old); }
};

}  // namespace

TEST_CASE("messages go to stderr by level, results to stdout") {
  const Restore restore;
  core::log::configure({.level = core::log::level_of(true, false)});
  Capture capture;
  core::log::debug("hidden {}", 1);
  core::log::info("hidden {}", 2);
  core::log::warning("shown {}", 3);
  core::log::error("shown {}", 4);
  core::log::result("{}\n", 5);
  CHECK(capture.out() == "5\n");
  CHECK(capture.err() == "warning: shown 3\nerror: shown 4\n");
  CHECK(core::log::level_of(false, true) == Level::kDebug);
  CHECK(core::log::level_of(false, false) == Level::kInfo);
}

TEST_CASE("json logs are one object a line, whatever the text holds") {
  const Restore restore;
  core::log::configure({.json = true, .rank = 3});
  Capture capture;
  core::log::info("two\nlines \"quoted\" \xff");
  core::log::write_fields(Level::kInfo, "epoch", {{"loss", "1.5"}, {"bad", "NaN"}});
  const std::string text = capture.err();
  const auto first = nlohmann::json::parse(text.substr(0, text.find('\n')));
  CHECK(first["level"] == "info");
  CHECK(first["rank"] == 3);
  CHECK(first["message"].get<std::string>().starts_with("two\nlines \"quoted\""));
  const auto second = nlohmann::json::parse(text.substr(text.find('\n') + 1));
  CHECK(second["loss"] == 1.5);
  CHECK(second["bad"] == "NaN");
}

TEST_CASE("NO_COLOR and the file copy") {
  const Restore restore;
  const support::TempDir dir;
  const auto file = dir.path() / "log.txt";
  setenv("NO_COLOR", "1", 1);
  setenv("CLICOLOR_FORCE", "1", 1);
  core::log::configure({.level = Level::kWarning, .file = file});
  CHECK_FALSE(core::log::color_stderr());
  unsetenv("NO_COLOR");
  CHECK(core::log::color_stderr());
  unsetenv("CLICOLOR_FORCE");
  {
    Capture capture;
    core::log::debug("only in the file");
    CHECK(capture.err().empty());
  }
  core::log::flush();
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  CHECK(text.find("debug   only in the file\n") != std::string::npos);
  CHECK_THROWS_AS(core::log::configure({.file = dir.path() / "no" / "such" / "folder"}),
                  core::Error);
}

TEST_CASE("messages of several threads stay whole, once means once") {
  const Restore restore;
  core::log::configure({});
  Capture capture;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) core::log::info("thread {} says {:04}", t, i);
      core::log::warning_once("only once");
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string text = capture.err();
  std::istringstream lines(text);
  int whole = 0, once = 0;
  for (std::string line; std::getline(lines, line);) {
    whole += line.size() == 18 && line.starts_with("thread ") ? 1 : 0;
    once += line == "warning: only once" ? 1 : 0;
  }
  CHECK(whole == 800);
  CHECK(once == 1);
}

TEST_CASE("progress where there is no terminal is a line now and then") {
  const Restore restore;
  core::log::configure({.progress_period = std::chrono::milliseconds(20)});
  Capture capture;
  {
    core::Progress progress("train");
    progress.update("too early");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(progress.due());
    progress.update("1/2");
    progress.update("too early again");
    progress.finish("done");
  }
  CHECK(capture.err() == "train: 1/2\ndone\n");
}
