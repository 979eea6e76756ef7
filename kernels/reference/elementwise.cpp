#include "kernels/formulas.hpp"
#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

void activate(ActivationKind kind, float slope, ConstSpan x, Span y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = activation(kind, slope, x[i]);
}

void activate_backward(ActivationKind kind, float slope, ConstSpan y, ConstSpan dy, Span dx) {
  for (std::size_t i = 0; i < y.size(); ++i) dx[i] = activation_gradient(kind, slope, y[i], dy[i]);
}

void dropout(const Step& step, std::uint64_t layer, float rate, ConstTensor x, Tensor y) {
  if (!step.training) {
    if (x.data.data() != y.data.data()) std::copy(x.data.begin(), x.data.end(), y.data.begin());
    return;
  }
  MRMF_CHECK(static_cast<Index>(step.ids.size()) >= x.shape.n, "dropout needs the sample id of every row");
  const DropoutMask mask(step, layer, rate);
  const Index features = x.shape.per_sample();
  for (Index row = 0; row < x.shape.n; ++row)
    for (Index feature = 0; feature < features; ++feature) {
      const Random4 block = mask.block(step.ids[row], feature);
      const Index i = row * features + feature;
      y.data[i] = x.data[i] * (mask.keeps(block, feature) ? mask.scale : 0.0F);
    }
}

}  // namespace mrmf::reference
