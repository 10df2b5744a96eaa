#include "loggers/logger.h"

#include "core/text.h"

namespace sgtrain::loggers {
namespace {

class NullLogger final : public Logger {
 public:
  std::string name() const override { return "none"; }
  void add_config(std::string_view, std::string_view) override {}
  void add_scalars(const Scalars&, std::int64_t) override {}
  void add_image(std::string_view, const cv::Mat&, std::int64_t) override {}
  void add_text(std::string_view, std::string_view, std::int64_t) override {}
  void add_file(const std::filesystem::path&) override {}
  void add_checkpoint(const std::filesystem::path&, std::int64_t) override {}
  void flush() override {}
  void close() override {}
};

}  // namespace

Logger::Registry& Logger::registry() {
  static Registry registry("logger");
  return registry;
}

std::string normalize_tag(std::string_view tag) {
  std::string out = core::lower(tag);
  for (char& c : out) {
    if (c == ' ') c = '_';
  }
  return out;
}

std::unique_ptr<Logger> make_null() {
  return std::make_unique<NullLogger>();
}

}  // namespace sgtrain::loggers
