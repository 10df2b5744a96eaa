#include "losses/loss.h"

namespace sgtrain::losses {
namespace {

at::Tensor value_of(const LossTerm& term, double weight) {
  return term.sum * weight / term.normaliser.to(term.sum.scalar_type()).clamp_min(term.floor);
}

}  // namespace

Loss::Registry& Loss::registry() {
  static Registry registry("loss");
  return registry;
}

at::Tensor LossResult::total() const {
  at::Tensor total;
  for (const LossTerm& term : terms) {
    const at::Tensor value = value_of(term, term.weight);
    total = total.defined() ? total + value : value;
  }
  return total;
}

at::Tensor LossResult::components() const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const LossTerm& term : terms)
    values.push_back(value_of(term, term.logged_weight.value_or(term.weight)).detach());
  if (terms.size() > 1) values.push_back(total().detach());
  return at::stack(values);
}

}  // namespace sgtrain::losses
