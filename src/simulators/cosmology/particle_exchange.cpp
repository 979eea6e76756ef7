#include "src/simulators/cosmology/particle_exchange.hpp"

#include <algorithm>
#include <numeric>

namespace mrmf::cosmology {
namespace {

constexpr std::size_t kPortion = std::size_t{1} << 17;  // particles per rank: 5 MiB for all that is kept of them

template <typename Action>
void for_each_portion(std::size_t particles, Action&& action) {
  for (std::size_t first = 0; first < particles; first += kPortion)
    action(first, std::min(first + kPortion, particles));
}

}  // namespace

void ParticleExchange::visit(const Vectors& position, const PlaneFinder& planes, const Visit& visit) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    send(position, first, last, planes);
    visit(there_);
  });
}

void ParticleExchange::ask(const Vectors& position, const PlaneFinder& planes, const Work& work, const Take& take) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    const Exchange way = send(position, first, last, planes);
    for (RealGrid& axis : answers_) axis.resize(way.received());
    work(there_, answers_);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      way.answer(answers_[axis], here_);
      for (std::size_t i = 0; i < order_.size(); ++i) take(order_[i], axis, here_[i]);
    }
  });
}

Exchange ParticleExchange::send(const Vectors& position, std::size_t first, std::size_t last,
                                const PlaneFinder& planes) {
  std::vector<int> counts(static_cast<std::size_t>(group_.size()));
  sort(position[0], first, last, planes, counts);
  Exchange way(group_, counts);
  here_.resize(order_.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::ranges::transform(order_, here_.begin(), [&](std::size_t particle) { return position[axis][particle]; });
    there_[axis].resize(way.received());
    way.send(here_, there_[axis]);
  }
  return way;
}

/// Counting sort.
void ParticleExchange::sort(const RealGrid& x, std::size_t first, std::size_t last, const PlaneFinder& planes,
                            std::vector<int>& counts) {
  const int per_rank = planes.n / group_.size();
  const auto rank_of = [&](std::size_t particle) { return static_cast<std::size_t>(planes(x[particle]) / per_rank); };
  for (std::size_t p = first; p < last; ++p) ++counts[rank_of(p)];
  std::vector<std::size_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::size_t{0});
  order_.resize(last - first);
  for (std::size_t p = first; p < last; ++p) order_[next[rank_of(p)]++] = p;
}

}  // namespace mrmf::cosmology
