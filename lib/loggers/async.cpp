// The background thread that serves all loggers of a run.
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "core/log.h"
#include "loggers/logger.h"

namespace sgtrain::loggers {
namespace {

constexpr std::chrono::seconds kLongestWait{5};

class AsyncLogger final : public Logger {
 public:
  AsyncLogger(std::vector<std::unique_ptr<Logger>> loggers, std::size_t queue_items)
      : loggers_(std::move(loggers)), failures_(loggers_.size()), most_(queue_items) {
    // Signals are the main thread's: block them while the thread starts, it inherits the mask.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  ~AsyncLogger() override { close(); }

  std::string name() const override { return "loggers"; }
  void add_config(std::string_view tag, std::string_view yaml) override {
    push([tag = normalize_tag(tag), yaml = std::string(yaml)](Logger& l) {
      l.add_config(tag, yaml);
    });
  }
  void add_scalars(const Scalars& scalars, std::int64_t step) override {
    Scalars named = scalars;
    for (auto& [tag, value] : named) tag = normalize_tag(tag);
    push([named = std::move(named), step](Logger& l) { l.add_scalars(named, step); });
  }
  void add_image(std::string_view tag, const cv::Mat& image, std::int64_t step) override {
    push([tag = normalize_tag(tag), copy = image.clone(), step](Logger& l) {
      l.add_image(tag, copy, step);
    });
  }
  void add_text(std::string_view tag, std::string_view markdown, std::int64_t step) override {
    push([tag = normalize_tag(tag), text = std::string(markdown), step](Logger& l) {
      l.add_text(tag, text, step);
    });
  }
  void add_file(const std::filesystem::path& file) override {
    push([file](Logger& l) { l.add_file(file); });
  }
  void add_checkpoint(const std::filesystem::path& file, std::int64_t step) override {
    push([file, step](Logger& l) { l.add_checkpoint(file, step); });
  }
  // Waits until everything so far is written.
  void flush() override {
    push([](Logger& l) { l.flush(); });
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return closed_ || (queue_.empty() && !busy_); });
  }
  void close() override {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
      push_locked([](Logger& l) { l.close(); });
      closed_ = true;
    }
    changed_.notify_all();
    thread_.join();
    report();
  }

 private:
  using Task = std::function<void(Logger&)>;

  void push(Task task) {
    {
      std::unique_lock lock(mutex_);
      const auto room = [this] { return closed_ || queue_.size() < most_; };
      if (closed_) return;
      if (!room_.wait_for(lock, kLongestWait, room)) {
        ++dropped_;
        return;
      }
      if (closed_) return;
      push_locked(std::move(task));
    }
    changed_.notify_all();
  }
  void push_locked(Task task) { queue_.push_back(std::move(task)); }

  void run() {
    for (;;) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        busy_ = false;
        if (queue_.empty()) idle_.notify_all();
        changed_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        if (queue_.empty()) return;
        task = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      room_.notify_all();
      for (std::size_t i = 0; i < loggers_.size(); ++i) serve(task, i);
    }
  }

  void serve(const Task& task, std::size_t i) {
    std::string reason;
    try {
      task(*loggers_[i]);
      return;
    } catch (const std::exception& error) {
      reason = error.what();
    } catch (...) {
      reason = "unknown error";
    }
    if (failures_[i]++ == 0) {
      core::log::warning("logger {}: {} (the run goes on; later failures are only counted)",
                         loggers_[i]->name(), reason);
    }
  }

  // Called after the thread has ended.
  void report() const {
    for (std::size_t i = 0; i < loggers_.size(); ++i) {
      if (failures_[i] > 1) {
        core::log::warning("logger {}: {} items failed", loggers_[i]->name(), failures_[i]);
      }
    }
    if (dropped_ > 0) {
      core::log::warning("loggers were too slow: {} items were dropped", dropped_);
    }
  }

  std::vector<std::unique_ptr<Logger>> loggers_;
  std::vector<std::size_t> failures_;  // the thread's until it has ended
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable changed_, room_, idle_;
  std::deque<Task> queue_;
  bool busy_ = false, closed_ = false;
  std::size_t dropped_ = 0;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Logger> make_async(std::vector<std::unique_ptr<Logger>> loggers,
                                   std::size_t queue_items) {
  return std::make_unique<AsyncLogger>(std::move(loggers), std::max<std::size_t>(queue_items, 1));
}

}  // namespace sgtrain::loggers
