// What a model does that is a network of several parts (layers/parts.hpp).
#include "layers/loss_terms.hpp"
#include "layers/model.hpp"

namespace mrmf {

bool Model::computes(std::size_t unit, const StepContext& step, std::vector<bool> LiveUnits::*pass) const {
  if (live_.empty()) return true;
  const LiveUnits& live = step.training ? live_.at(step.turn) : live_.back();
  return (live.*pass)[unit];
}

// Copies' gradients are added before those of the ranks.
void Model::backward_from_terms(const StepContext& step, ConstTensor x, const GradientSums& sums) {
  for (std::size_t u = execution_.units.size(); u-- > 0;) {
    if (computes(u, step, &LiveUnits::backward))
      backward(execution_.units[u], step, x);
    else
      clear_gradients(execution_.units[u], step, x);
  }
  fold_gradients(*backend_, weights_of_others_, grads());
  if (sums.all_reduce != nullptr) all_reduce_gradients(sums);
}

// dy is zero, or nobody before the unit wants a gradient.
void Model::clear_gradients(const Unit& unit, const StepContext& step, ConstTensor x) {
  backend_->fill(buffers_of(unit, step).grads, 0);
  const ConstTensor dy = activation(unit.memory.dy, unit.out.with_rows(x.shape.n));
  if (unit.join != nullptr) {
    backward(unit, step, x);
    return;
  }
  const Tensor dx = gradient_of(unit, 0, x);
  if (!dx.data.empty() && dx.data.data() != dy.data.data()) backend_->fill(dx.data, 0);
  add_up(unit, x);
}

void Model::run_terms(const Unit& unit, const StepContext& step, ConstTensor x) {
  x_.clear(), dx_.clear();
  for (std::size_t i = 0; i < unit.reads.size(); ++i) {
    x_.push_back(input_of(unit, i, x));
    dx_.push_back(gradient_of(unit, i, x));
  }
  unit.terms->run(step, x_, dx_, grads_.span().subspan(static_cast<std::size_t>(layout().gradients())));
}

}  // namespace mrmf
