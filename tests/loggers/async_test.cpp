#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "core/error.h"
#include "core/log.h"
#include "loggers/logger.h"

using namespace sgtrain;

namespace {

struct Seen {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<double> values;
  int closed = 0;
  bool hold = false;  // the logger waits while set
  void wait_while_held() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return !hold; });
  }
};

class FakeLogger final : public loggers::Logger {
 public:
  FakeLogger(Seen& seen, bool fails) : seen_(seen), fails_(fails) {}
  std::string name() const override { return "fake"; }
  void add_config(std::string_view, std::string_view) override {}
  void add_scalars(const loggers::Scalars& s, std::int64_t) override {
    seen_.wait_while_held();
    if (fails_) throw core::Error("server unreachable");
    const std::lock_guard lock(seen_.mutex);
    seen_.values.push_back(s.at(0).second);
  }
  void add_image(std::string_view, const cv::Mat&, std::int64_t) override {}
  void add_text(std::string_view, std::string_view, std::int64_t) override {}
  void add_file(const std::filesystem::path&) override {}
  void add_checkpoint(const std::filesystem::path&, std::int64_t) override {}
  void flush() override {}
  void close() override { ++seen_.closed; }

 private:
  Seen& seen_;
  bool fails_;
};

}  // namespace

TEST_CASE("a failing logger warns once and does not disturb the others") {
  Seen good, bad;
  std::vector<std::unique_ptr<loggers::Logger>> list;
  list.push_back(std::make_unique<FakeLogger>(bad, true));
  list.push_back(std::make_unique<FakeLogger>(good, false));
  const auto before = core::log::count(core::log::Level::kWarning);
  auto logger = loggers::make_async(std::move(list));
  for (int i = 0; i < 100; ++i) logger->add_scalar("x", i, i);
  logger->flush();
  REQUIRE(good.values.size() == 100);
  CHECK(good.values[99] == 99);
  CHECK(core::log::count(core::log::Level::kWarning) == before + 1);
  logger->close();
  logger->close();
  logger->add_scalar("x", 1, 1);  // after the end: nothing
  CHECK(good.values.size() == 100);
  CHECK(good.closed == 1);
  CHECK(bad.closed == 1);
  CHECK(core::log::count(core::log::Level::kWarning) == before + 2);  // and the count at the end
}

TEST_CASE("a slow logger does not hold the caller up until its queue is full") {
  Seen seen;
  seen.hold = true;
  std::vector<std::unique_ptr<loggers::Logger>> list;
  list.push_back(std::make_unique<FakeLogger>(seen, false));
  auto logger = loggers::make_async(std::move(list), 50);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 50; ++i) logger->add_scalar("x", i, i);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
  {
    const std::lock_guard lock(seen.mutex);
    seen.hold = false;
  }
  seen.changed.notify_all();
  logger->close();
  CHECK(seen.values.size() == 50);
}
