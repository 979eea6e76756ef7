#include "src/simulators/neuron/stimulus.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace mrmf::neuron {
namespace {

constexpr double kStart = 20, kEnd = 140;  // ms
constexpr std::array kSpikes{23.0, 28.2, 34.4, 55.1, 61.4, 82.2, 93.2, 104.8, 125.4, 132.2};

// The oscillation `since` ms after the last spike.
double slow_part(double since) {
  const double amplitude = std::min(0.72, 0.12 + 0.055 * since);
  return -0.62 + amplitude * std::cos(2 * std::numbers::pi * since / 4.6 + 0.9 * std::numbers::pi);
}

// A spike is higher the longer the oscillation had time to grow.
double spike(double from_peak, double gap) {
  const double height = std::min(6.7, 5.75 + 0.08 * gap);
  return height * std::exp(-from_peak * from_peak / (2 * 0.62 * 0.62));
}

double value(double t) {
  if (t < kStart || t >= kEnd) return 0;
  double last = kStart, sum = 0, before = kStart - 4;
  for (const double peak : kSpikes) {
    if (t >= peak) last = peak;
    sum += spike(t - peak, peak - before);
    before = peak;
  }
  return sum + slow_part(t - last);
}

}  // namespace

std::vector<double> stimulus() {
  std::vector<double> trace(kStimulusValues);
  for (int i = 0; i < kStimulusValues; ++i) trace[static_cast<std::size_t>(i)] = value(i * kStimulusStep);
  return trace;
}

std::vector<double> midpoint_current(std::span<const double> trace, double dt, int steps) {
  std::vector<double> current(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i) {
    const double x = (i + 0.5) * dt / kStimulusStep;
    const auto left = std::min(static_cast<std::size_t>(x), trace.size() - 1);
    const auto right = std::min(left + 1, trace.size() - 1);
    const double share = x - static_cast<double>(left);
    current[static_cast<std::size_t>(i)] = trace[left] + share * (trace[right] - trace[left]);
  }
  return current;
}

}  // namespace mrmf::neuron
