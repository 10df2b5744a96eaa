#include <fmt/format.h>

#include <chrono>
#include <csignal>

#include "core/log.h"
#include "core/process.h"
#include "core/text.h"
#include "train/callback.h"
#include "train/exec_policy.h"
#include "train/run.h"

namespace sgtrain::train {
namespace {

/// Runs a shell command on rank 0, with {epoch}, {step}, {metric} (the watched value), {run_dir}
/// and any logged name in braces replaced by its value, quoted for the shell. Whatever becomes of
/// it, the run goes on.
class ShellCallback final : public PhaseCallback {
 public:
  struct Params {
    Phase phase = Phase::kValidationEpochEnd;
    std::string command;
    double timeout = 60.0;  // seconds, then it is killed
    static Params from(core::Node& n) {
      Params p;
      p.phase = read_phase(n);
      p.command = n.get<std::string>("command")
                      .help("with {epoch} {step} {metric} {run_dir} or {logged name}")
                      .value();
      p.timeout = n.get_or("timeout", p.timeout).above(0.0).help("seconds");
      check_exec(n, "ShellCallback");
      return p;
    }
  };
  explicit ShellCallback(Params params) : PhaseCallback(params.phase), p_(std::move(params)) {}

  Requests call(PhaseContext& context) override {
    if (!context.is_main) return {};
    const std::string command = filled(context);
    try {
      // The environment of a run under a launcher must not make the command a worker.
      auto process = core::Process::start(
          {.argv = {"/bin/sh", "-c", command},
           .unset_env = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
           .null_input = true});
      const auto status = process.wait_for(
          std::chrono::milliseconds(static_cast<std::int64_t>(p_.timeout * 1000.0)));
      if (!status) {
        process.send_signal(SIGKILL, /*group=*/true);
        process.wait();
        core::log::warning("ShellCallback: stopped after {} s: {}", p_.timeout, command);
      } else if (!status->ok()) {
        core::log::warning("ShellCallback: {}: {}", status->str(), command);
      }
    } catch (const std::exception& error) {
      core::log::warning("ShellCallback: {}: {}", command, error.what());
    }
    return {};
  }

 private:
  /// One word of a shell, whatever is in it.
  static std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
    return out + "'";
  }

  static std::string number(double value) { return fmt::format("{}", value); }

  /// The value of a placeholder; nullopt: none of ours, stays as it is.
  static std::optional<std::string> value_of(const std::string& name, const PhaseContext& context) {
    if (name == "epoch") return std::to_string(context.state.epoch);
    if (name == "step") return std::to_string(context.state.global_step);
    if (name == "run_dir") return context.run != nullptr ? context.run->dir.string() : "";
    if (name == "metric") {
      const auto value = context.metric(context.watched);
      return value ? number(*value) : "";
    }
    for (const auto& [own, value] : context.metrics) {
      if (own == name || core::fuzzy_key(own) == core::fuzzy_key(name)) return number(value);
    }
    return std::nullopt;
  }

  std::string filled(const PhaseContext& context) const {
    std::string out;
    std::size_t at = 0;
    while (at < p_.command.size()) {
      const std::size_t open = p_.command.find('{', at);
      const std::size_t close = open == std::string::npos ? open : p_.command.find('}', open);
      if (close == std::string::npos) break;
      const auto value = value_of(p_.command.substr(open + 1, close - open - 1), context);
      out += p_.command.substr(at, open - at);
      out += value ? quoted(*value) : p_.command.substr(open, close + 1 - open);
      at = close + 1;
    }
    return out + p_.command.substr(std::min(at, p_.command.size()));
  }

  Params p_;
};

}  // namespace
SGTRAIN_REGISTER(Callback, ShellCallback, "ShellCallback");
}  // namespace sgtrain::train
