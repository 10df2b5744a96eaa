// Loss scaling for fp16 (Micikevicius et al. 2018), with torch.amp.GradScaler's rule and state.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "optim/optimizer.h"
#include "tensor/value.h"

namespace sgtrain::optim {

struct GradScalerParams {
  double init_scale = 65536.0;
  double growth_factor = 2.0;   // after growth_interval steps in a row without inf or NaN
  double backoff_factor = 0.5;  // after a step with one
  std::int64_t growth_interval = 2000;
};

class GradScaler {
 public:
  explicit GradScaler(at::Device device, const GradScalerParams& params = {});
  /// Makes `found_inf` (float [1]: 0 or 1) the same on all ranks, e.g. an all-reduce of the
  /// greatest; called in unscale(). Without it ranks must have the same gradients already.
  void on_found_inf(std::function<void(at::Tensor&)> hook) { hook_ = std::move(hook); }

  /// loss * scale
  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides the gradients by the scale and looks for inf and NaN. Once per step, before clipping.
  void unscale(Optimizer& optimizer);
  /// optimizer.step() unless unscale() found inf or NaN; true when it stepped. Unscales when that
  /// was not done.
  bool step(Optimizer& optimizer);
  /// New scale after a step.
  void update();

  double current_scale() const { return scale_.item().toDouble(); }
  /// torch's keys: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker.
  tensor::Value state_dict() const;
  /// An empty dict (a run without scaling) changes nothing.
  void load_state_dict(const tensor::Value& state);

 private:
  GradScalerParams params_;
  at::Tensor scale_, growth_tracker_, found_inf_;
  std::function<void(at::Tensor&)> hook_;
  bool unscaled_ = false;
};

}  // namespace sgtrain::optim
