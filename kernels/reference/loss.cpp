#include <cmath>

#include "kernels/reference/backend.hpp"

namespace mrmf::reference {

void loss(const Step& step, LossKind kind, ConstTensor y, ConstTensor target, Span dy, Span sum) {
  const auto outputs = static_cast<double>(y.shape.per_sample());
  const double scale = double{step.loss_weight} / outputs;
  double total = 0;
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const double error = double{y.data[i]} - target.data[i];
    const double sign = error > 0 ? 1.0 : error < 0 ? -1.0 : 0.0;
    total += kind == LossKind::mse ? error * error : std::abs(error);
    if (!dy.empty()) dy[i] = static_cast<float>(scale * (kind == LossKind::mse ? 2.0 * error : sign));
  }
  sum[0] = static_cast<float>(total / outputs);
}

}  // namespace mrmf::reference
