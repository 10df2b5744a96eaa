// The interface of every loss, and its registry.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"
#include "tensor/batch.h"

namespace sgtrain::losses {

/// One term of a loss: value = weight * sum / max(normaliser, floor). Sums and normalisers cover
/// this process's mini-batch; with several processes the step all-reduces the normalisers before
/// backward, so that gradients and reported values are those of the global batch and a loss knows
/// nothing of ranks.
struct LossTerm {
  std::string name;       // "loss_cls"; empty for a loss of one term
  at::Tensor sum;         // scalar with graph
  at::Tensor normaliser;  // scalar without graph (count of samples, sum of assigned scores, …)
  double weight = 1.0;
  double floor = 0.0;                     // lower bound of the global normaliser
  std::optional<double> logged_weight{};  // of the value that is shown; absent: weight
};

struct LossResult {
  std::vector<LossTerm> terms;

  /// Σ weight·sum/max(normaliser, floor): the loss of one process.
  at::Tensor total() const;
  /// Values of all terms as logged (weighted, normalised), then the total: float [terms + 1], no
  /// graph.
  at::Tensor components() const;
};

class Loss {
 public:
  using Registry = core::Registry<Loss>;
  static Registry& registry();

  virtual ~Loss() = default;
  virtual LossResult operator()(const tensor::ModelOutput& output,
                                const tensor::Targets& targets) = 0;

  /// Class name for logs: "PPYoloELoss".
  virtual std::string name() const = 0;
  /// Names of the logged components: "PPYoloELoss/loss_cls", …, "PPYoloELoss/loss"; a loss of one
  /// term logs its class name alone.
  virtual std::vector<std::string> component_names() const { return {name()}; }
  /// Whether it compares with a teacher's output (models/kd_module.h).
  virtual bool needs_teacher() const { return false; }
};

}  // namespace sgtrain::losses
