#include "log_options.h"

#include "core/log.h"

namespace sgtrain::app {

void LogOptions::apply() const {
  core::log::Options options;
  options.level = core::log::level_of(quiet_, verbose_);
  options.json = json_;
  if (no_color_) options.color = core::log::Color::kNever;
  core::log::configure(options);
}

}  // namespace sgtrain::app
