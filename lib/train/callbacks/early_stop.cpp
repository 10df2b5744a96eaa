#include <cmath>
#include <optional>

#include "core/text.h"
#include "train/callback.h"
#include "train/watcher.h"

namespace sgtrain::train {
namespace {

/// Stops when the monitored value has not improved by more than min_delta for `patience` looks, is
/// not finite, or has passed `threshold`.
class EarlyStop final : public Callback, public Watcher {
 public:
  struct Params {
    bool after_training = false;  // phase TRAIN_EPOCH_END; else VALIDATION_EPOCH_END
    std::string monitor;          // logged name
    bool greater = false;         // mode max
    double min_delta = 0.0;
    int patience = 3;  // looks without improvement
    bool check_finite = true;
    std::optional<double> threshold;  // good enough: stop
    bool strict = true;               // an unknown monitor is an error
    static Params from(core::Node& n) {
      Params p;
      p.after_training = n.get_or("phase", "VALIDATION_EPOCH_END")
                             .one_of({"VALIDATION_EPOCH_END", "TRAIN_EPOCH_END"})
                             .value() == "TRAIN_EPOCH_END";
      p.monitor = n.get<std::string>("monitor");
      p.greater = n.get_or("mode", "min").one_of({"min", "max"}).value() == "max";
      p.min_delta = n.get_or("min_delta", 0.0).min(0.0);
      p.patience = n.get_or("patience", 3).min(1);
      p.check_finite = n.get_or("check_finite", true);
      p.threshold = n.find<double>("threshold");
      n.get_or("verbose", false);
      p.strict = n.get_or("strict", true);
      return p;
    }
  };
  explicit EarlyStop(Params p) : p_(std::move(p)) {}

  Requests on_train_loader_end(PhaseContext& context) override {
    return p_.after_training ? look(context) : Requests{};
  }
  Requests on_validation_loader_end(PhaseContext& context) override {
    return p_.after_training ? Requests{} : look(context);
  }

  std::string watches() const override { return p_.strict ? p_.monitor : ""; }

  tensor::Value save() const override {
    tensor::Value out = tensor::Value::dict();
    if (best_) out.set("best", *best_);
    out.set("waited", waited_);
    return out;
  }
  void load(const tensor::Value& state) override {
    if (const auto* best = state.find("best")) best_ = best->as_double();
    waited_ = static_cast<int>(state["waited"].as_int());
  }

 private:
  std::optional<double> value_of(const PhaseContext& context) const {
    for (const auto& [name, value] : context.metrics) {
      if (core::fuzzy_key(name) == core::fuzzy_key(p_.monitor)) return value;
    }
    return std::nullopt;
  }

  Requests look(const PhaseContext& context) {
    const auto value = value_of(context);
    if (!value) {
      if (!p_.strict) return {};
      return {.stop_training = "EarlyStop: '" + p_.monitor + "' is none of this run's values"};
    }
    if (p_.check_finite && !std::isfinite(*value)) {
      return {.stop_training = p_.monitor + " is not finite"};
    }
    const double gain = p_.greater ? *value - best_.value_or(0) : best_.value_or(0) - *value;
    if (p_.threshold && (p_.greater ? *value > *p_.threshold : *value < *p_.threshold)) {
      return {.stop_training = p_.monitor + " has reached its threshold"};
    }
    if (!best_ || gain > p_.min_delta) {
      best_ = value;
      waited_ = 0;
      return {};
    }
    if (++waited_ < p_.patience) return {};
    return {.stop_training =
                p_.monitor + " did not improve for " + std::to_string(p_.patience) + " epochs"};
  }

  Params p_;
  std::optional<double> best_;
  int waited_ = 0;
};

}  // namespace
SGTRAIN_REGISTER(Callback, EarlyStop, "EarlyStop", "early_stop");
}  // namespace sgtrain::train
