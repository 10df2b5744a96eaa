#include "losses/loss.h"

namespace sgtrain::losses {
namespace {

at::Tensor value_of(const LossTerm& term) {
  return term.sum * term.weight / term.normaliser.to(term.sum.scalar_type()).clamp_min(term.floor);
}

}  // namespace

Loss::Registry& Loss::registry() {
  static Registry registry("loss");
  return registry;
}

at::Tensor LossResult::total() const {
  at::Tensor total;
  for (const LossTerm& term : terms) {
    total = total.defined() ? total + value_of(term) : value_of(term);
  }
  return total;
}

at::Tensor LossResult::components() const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const LossTerm& term : terms) values.push_back(value_of(term).detach());
  at::Tensor stacked = at::stack(values);
  return terms.size() == 1 ? stacked : at::cat({stacked, stacked.sum().unsqueeze(0)});
}

}  // namespace sgtrain::losses
