#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "optim/torch_schedule.h"

namespace sgtrain::optim {
namespace {

/// Lowers all rates by a factor when a value has not improved for `patience` looks, as
/// torch.optim.lr_scheduler.ReduceLROnPlateau.
class ReduceLrOnPlateau final : public CountingSchedule {
 public:
  struct Params {
    std::string metric_name;  // logged name
    bool max = false;
    double factor = 0.1;
    int patience = 10;  // looks
    double threshold = 1e-4;
    bool relative = true;  // threshold_mode
    int cooldown = 0;      // looks after a reduction
    double min_lr = 0.0;
    double eps = 1e-8;  // smaller changes are not made
    TorchPhase phase = TorchPhase::kValidationEnd;
    static Params from(core::Node& node) {
      Params p;
      p.metric_name = node.get<std::string>("metric_name").help("logged name of the value watched");
      p.max = node.get_or("mode", "min").one_of({"min", "max"}).value() == "max";
      p.factor = node.get_or("factor", p.factor).in(0.0, 1.0);
      if (p.factor >= 1.0) node.problem("factor", "must be below 1");
      p.patience = node.get_or("patience", p.patience).min(0);
      p.threshold = node.get_or("threshold", p.threshold).min(0.0);
      p.relative = node.get_or("threshold_mode", "rel").one_of({"rel", "abs"}).value() == "rel";
      p.cooldown = node.get_or("cooldown", p.cooldown).min(0);
      p.min_lr = node.get_or("min_lr", p.min_lr).min(0.0);
      p.eps = node.get_or("eps", p.eps).min(0.0);
      node.get_or("verbose", false);
      p.phase = read_phase(node, "VALIDATION_EPOCH_END");
      return p;
    }
  };

  ReduceLrOnPlateau(const Params& params, const RunLength& length)
      : CountingSchedule(params.phase, length), p_(params) {}

  using LrSchedule::at;
  std::optional<double> at(const Position& position, const ParamGroup& group) override {
    static_cast<void>(position);
    if (!steps_now() || !reduces_) return std::nullopt;
    const double lower = std::max(group.lr * p_.factor, p_.min_lr);
    if (group.lr - lower <= p_.eps) return std::nullopt;
    return lower;
  }
  std::string watches() const override { return p_.metric_name; }

  tensor::Value save() const override {
    tensor::Value out = CountingSchedule::save();
    out.set("best", best_);
    out.set("num_bad_epochs", bad_);
    out.set("cooldown_counter", cooldown_);
    return out;
  }
  void load(const tensor::Value& state) override {
    CountingSchedule::load(state);
    if (const auto* best = state.find("best")) best_ = best->as_double();
    if (const auto* bad = state.find("num_bad_epochs")) bad_ = static_cast<int>(bad->as_int());
    if (const auto* left = state.find("cooldown_counter"))
      cooldown_ = static_cast<int>(left->as_int());
  }

 protected:
  void on_step(const Position& position) override {
    const double value = value_at(position);
    reduces_ = false;
    if (is_better(value)) {
      best_ = value;
      bad_ = 0;
    } else {
      ++bad_;
    }
    if (cooldown_ > 0) {
      --cooldown_;
      bad_ = 0;
    }
    if (bad_ <= p_.patience) return;
    reduces_ = true;
    cooldown_ = p_.cooldown;
    bad_ = 0;
  }

 private:
  bool is_better(double value) const {
    if (p_.relative)
      return p_.max ? value > best_ * (1.0 + p_.threshold) : value < best_ * (1.0 - p_.threshold);
    return p_.max ? value > best_ + p_.threshold : value < best_ - p_.threshold;
  }

  double value_at(const Position& position) const {
    if (position.values != nullptr) {
      for (const auto& [name, value] : *position.values) {
        if (core::fuzzy_key(name) == core::fuzzy_key(p_.metric_name)) return value;
      }
    }
    throw core::InputError("ReduceLROnPlateau: there is no value '" + p_.metric_name + "' yet",
                           "training_hyperparams.lr_mode",
                           "choose phase VALIDATION_EPOCH_END for a value of validation");
  }

  Params p_;
  double best_ =
      p_.max ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  int bad_ = 0, cooldown_ = 0;
  bool reduces_ = false;
};

}  // namespace

SGTRAIN_REGISTER(LrSchedule, ReduceLrOnPlateau, "ReduceLROnPlateau");
}  // namespace sgtrain::optim
