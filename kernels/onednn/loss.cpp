#include <cmath>

#include "kernels/onednn/operations.hpp"

namespace mrmf::onednn {

// A network's outputs are few: one thread, and so one order of summation.
double loss(LossKind kind, ConstTensor y, ConstTensor target, float weight, Span dy) {
  const auto outputs = static_cast<double>(y.shape.per_sample());
  const double scale = weight / outputs;
  double sum = 0;
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const double error = double{y.data[i]} - target.data[i];
    const double sign = error > 0 ? 1.0 : error < 0 ? -1.0 : 0.0;
    sum += kind == LossKind::mse ? error * error : std::abs(error);
    if (!dy.empty()) dy[i] = static_cast<float>(scale * (kind == LossKind::mse ? 2.0 * error : sign));
  }
  return sum / outputs;
}

}  // namespace mrmf::onednn
