#include "src/tournament/pairing.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

constexpr std::uint64_t kPairs = 0x7061697273, kMutation = 0x6d7574617465;  // apart from other uses of a seed

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Of the mean of values.
double standard_error(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (n < 2) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / (n - 1) / n);
}

}  // namespace

std::vector<int> partners(int trainers, std::uint64_t seed, int round) {
  std::vector<int> order(static_cast<std::size_t>(trainers)), partner(order.size());
  std::iota(order.begin(), order.end(), 0);
  Rng random(mix(seed, kPairs, static_cast<std::uint64_t>(round)));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random.uniform() * static_cast<double>(i))]);
  std::iota(partner.begin(), partner.end(), 0);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) {
    partner[static_cast<std::size_t>(order[i])] = order[i + 1];
    partner[static_cast<std::size_t>(order[i + 1])] = order[i];
  }
  return partner;
}

double Score::error() const { return standard_error(groups); }

Decision decide(const Score& own, const Score& visitor) {
  if (!std::isfinite(visitor.value)) return {};
  if (!std::isfinite(own.value)) return {.replaced = true};
  MRMF_CHECK(own.groups.size() == visitor.groups.size(), "scores of different rows");
  std::vector<double> better;
  for (std::size_t i = 0; i < own.groups.size(); ++i) better.push_back(own.groups[i] - visitor.groups[i]);
  std::erase_if(better, [](double difference) { return !std::isfinite(difference); });
  Decision decision{.error = standard_error(better)};
  const double difference = own.value - visitor.value;
  decision.replaced = difference > 0 && difference > decision.error;
  return decision;
}

std::vector<int> truncation_sources(const std::vector<RankedScore>& scores, int best) {
  MRMF_CHECK(best > 0, "no trainer feeds the others");
  std::vector<int> ranking, source(scores.size());
  std::iota(source.begin(), source.end(), 0);
  const auto of = [&](int trainer) -> const RankedScore& { return scores[static_cast<std::size_t>(trainer)]; };
  for (const int trainer : source)
    if (of(trainer).plays) ranking.push_back(trainer);
  std::ranges::stable_sort(ranking, [&](int a, int b) {
    const bool finite = std::isfinite(of(a).value), other = std::isfinite(of(b).value);
    return finite != other ? finite : finite && of(a).value < of(b).value;
  });
  for (std::size_t index = static_cast<std::size_t>(best); index < ranking.size(); ++index) {
    const int loser = ranking[index], winner = ranking[index % static_cast<std::size_t>(best)];
    if (!std::isfinite(of(winner).value)) continue;
    const double difference = of(loser).value - of(winner).value, error = std::hypot(of(loser).error, of(winner).error);
    if (std::isfinite(of(loser).value) && !(difference > 0 && difference > error)) continue;
    source[static_cast<std::size_t>(loser)] = winner;
  }
  return source;
}

double mutation(std::uint64_t seed, int round, int trainer, int what) {
  Rng random(mix(mix(seed, kMutation, static_cast<std::uint64_t>(round)), static_cast<std::uint64_t>(trainer),
                 static_cast<std::uint64_t>(what)));
  return random.uniform() < 0.5 ? 0.8 : 1.2;
}

}  // namespace mrmf
