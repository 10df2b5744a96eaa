// Exponential moving average of a network's state.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/module.h"

namespace sgtrain::optim {

struct EmaParams {
  double decay = 0.9999;           // the greatest decay
  std::string decay_type = "exp";  // constant, threshold, exp
  double beta = 15.0;              // exp: how soon the decay is reached (15: at 40 % of the run)
};

/// Decay of one update. `step` counts batches from 1, `total_steps` those of the whole run.
///   constant: decay; threshold: min(decay, (1 + step) / (10 + step));
///   exp: decay * (1 - e^(-beta * step / total_steps)).
/// Throws core::InputError on another type.
double ema_decay(const EmaParams& params, std::int64_t step, std::int64_t total_steps);

/// average = d * average + (1 - d) * net, over every floating entry of the state_dict (parameters,
/// BatchNorm's running mean and variance); counters such as num_batches_tracked keep the value they
/// had when the average began.
class Ema {
 public:
  /// Begins with a copy of the model's state. With `averaged`, a part of the model, all other
  /// entries (a teacher's) are the model's own tensors and never change here.
  Ema(tensor::Module& model, const EmaParams& params, tensor::Module* averaged = nullptr);

  void update(tensor::Module& model, std::int64_t step, std::int64_t total_steps);
  /// Exchanges the model's tensors with the average's, without copying; a second call undoes it.
  /// Between the two calls nothing may be updated.
  void swap(tensor::Module& model);
  bool swapped() const { return swapped_; }
  /// Begins anew from the model's state.
  void reset(tensor::Module& model);

  /// The average, in the model's order; the same memory. Not while swapped.
  tensor::StateDict state_dict() const;
  /// Copies; every entry must be there with its shape, else core::InputError (`where`: the file).
  void load_state_dict(const tensor::StateDict& state, const std::string& where);

 private:
  EmaParams params_;
  tensor::Module* averaged_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> average_;
  std::vector<bool> own_;  // whether an entry is averaged, or shared with the model
  bool swapped_ = false;
};

/// The model is the average while this lives. `ema` may be null: nothing happens.
class EmaScope {
 public:
  EmaScope(Ema* ema, tensor::Module& model) : ema_(ema), model_(model) {
    if (ema_ != nullptr) ema_->swap(model_);
  }
  ~EmaScope() {
    if (ema_ != nullptr) ema_->swap(model_);
  }
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema* ema_;
  tensor::Module& model_;
};

}  // namespace sgtrain::optim
