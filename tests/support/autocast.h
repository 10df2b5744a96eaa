// Mixed precision on the CPU for the life of a scope.
#pragma once

#include <ATen/autocast_mode.h>

namespace sgtrain::support {

class AutocastGuard {
 public:
  explicit AutocastGuard(bool on) {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, on);
  }
  ~AutocastGuard() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;
};

}  // namespace sgtrain::support
