#include "src/training/probabilities.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {

std::vector<float> probabilities(Task task, Index channels, ConstSpan y) {
  std::vector<float> p(y.begin(), y.end());
  if (task != Task::classes) {
    for (float& value : p) value = static_cast<float>(1 / (1 + std::exp(-double{value})));
    return p;
  }
  for (auto at = p.begin(); at != p.end(); at += channels) {
    const float most = *std::max_element(at, at + channels);
    double sum = 0;
    for (auto c = at; c != at + channels; ++c) sum += std::exp(double{*c} - most);
    for (auto c = at; c != at + channels; ++c) *c = static_cast<float>(std::exp(double{*c} - most) / sum);
  }
  return p;
}

double log_loss(ConstSpan outputs, Index label) {
  const double most = *std::ranges::max_element(outputs);
  double sum = 0;
  for (const float output : outputs) sum += std::exp(output - most);
  return std::log(sum) - (outputs[static_cast<std::size_t>(label)] - most);
}

double log_loss(double output, double label) {
  return std::max(output, 0.0) - output * label + std::log1p(std::exp(-std::abs(output)));
}

}  // namespace mrmf
