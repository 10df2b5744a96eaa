#include "train/exec_policy.h"

#include <atomic>
#include <string>

namespace sgtrain::train {
namespace {

std::atomic<bool>& allowed() {
  static std::atomic<bool> value{true};
  return value;
}

}  // namespace

void forbid_exec() {
  allowed() = false;
}

bool exec_allowed() {
  return allowed();
}

bool check_exec(core::Node& node, std::string_view what) {
  if (node.describing() || exec_allowed()) return true;
  node.problem(std::string(what) + " is refused by --no-exec");
  return false;
}

}  // namespace sgtrain::train
