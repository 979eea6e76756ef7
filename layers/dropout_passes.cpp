#include "layers/dropout_passes.hpp"

#include <algorithm>

namespace mrmf {

bool drops(const Network& network) {
  return std::ranges::any_of(
      network.entries(), [](const Entry& entry) { return entry.kind == LayerKind::dropout && entry.spec.rate > 0; });
}

ConstTensor forward_with_dropout(Model& model, const Step& step, ConstTensor x) {
  Step evaluation = step, training = step;
  evaluation.training = false;
  training.training = true;
  ConstTensor y;
  for (const Unit& unit : model.units()) {  // dropout is never a part of a fused unit
    const bool dropout = model.network().entry(unit.first).kind == LayerKind::dropout;
    y = model.forward(unit, dropout ? training : evaluation, x);
  }
  return y;
}

}  // namespace mrmf
