#include "src/training/momenta.hpp"

#include <algorithm>
#include <cmath>

#include "src/training/sum_coding.hpp"

namespace mrmf {
namespace {

// total = the sum of the workers' values. For one worker a rank, as gradients are summed; else in fixed point, so that
// it does not matter on which rank a worker is.
void add(const std::vector<Span>& values, int all, Comm& team, Span total) {
  if (values.size() == 1) {
    if (total.data() != values.front().data()) std::ranges::copy(values.front(), total.begin());
    return team.sum(total);
  }
  const std::vector<std::span<const float>> summands(values.begin(), values.end());
  team.sum_summands(summands, all, total);
}

// Evenly spaced ones, so that a spread costs little on a slow network.
std::vector<float> some_of(ConstSpan values) {
  constexpr std::size_t kMost = 4096;
  const std::size_t step = (values.size() + kMost - 1) / kMost;
  std::vector<float> some;
  for (std::size_t i = 0; i < values.size(); i += step) some.push_back(values[i]);
  return some;
}

}  // namespace

bool averages_momenta(const MomentaSettings& settings, std::uint64_t step) {
  switch (settings.rule) {
    case MomentaRule::shared:
    case MomentaRule::local: return false;
    case MomentaRule::every: return step % static_cast<std::uint64_t>(settings.every) == 0;
    case MomentaRule::spaced: break;
  }
  double at = 1;
  const auto wanted = static_cast<double>(step);
  for (int j = 0; std::floor(at) < wanted; ++j) at += std::exp2(static_cast<double>(j) / settings.spacing);
  return std::floor(at) == wanted;
}

double average_momenta(const std::vector<Span>& momenta, const std::vector<float>& weights, int all, Comm& team) {
  for (std::size_t i = 0; i < momenta.size(); ++i)
    for (float& value : momenta[i]) value *= weights[i];
  add(momenta, all, team, momenta.front());
  for (std::size_t i = 1; i < momenta.size(); ++i) std::ranges::copy(momenta.front(), momenta[i].begin());
  return sum_bytes(Communication::fp32, static_cast<double>(momenta.front().size()), team.size());
}

std::vector<MomentaSpread> momenta_spread(const std::vector<Span>& momenta, int all,
                                          const std::vector<TensorSpan>& tensors, Comm& team) {
  std::vector<double> sums(2 * tensors.size());  // of squares of means, of deviations from them
  std::vector<std::size_t> counts;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::vector<std::vector<float>> values;
    std::vector<Span> spans;
    for (const Span momentum : momenta) spans.push_back(values.emplace_back(some_of(tensors[t].in(momentum))));
    counts.push_back(spans.front().size());
    std::vector<float> total(counts.back());
    add(spans, all, team, total);
    for (std::size_t i = 0; i < total.size(); ++i) {
      const double mean = double{total[i]} / all;
      sums[2 * t] += mean * mean * static_cast<double>(momenta.size());
      for (const Span own : spans) sums[2 * t + 1] += (own[i] - mean) * (own[i] - mean);
    }
  }
  team.sum(sums);
  std::vector<MomentaSpread> result;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const double count = static_cast<double>(counts[t]) * all;
    result.push_back({tensors[t].name, sums[2 * t] / count, sums[2 * t + 1] / count});
  }
  return result;
}

}  // namespace mrmf
