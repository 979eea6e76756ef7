#include "io/rows/balanced_draws.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ranges>
#include <utility>

#include "kernels/random.hpp"

namespace mrmf {
namespace {

using Shares = std::vector<std::vector<double>>;  // [shard][class]

double sum_of(const Shares& shares, std::size_t c) {
  return std::accumulate(shares.begin(), shares.end(), 0.0,
                         [c](double sum, const std::vector<double>& shard) { return sum + shard[c]; });
}

double draws_of(const Shares& shares) {
  double all = 0;
  for (const auto& shard : shares) all += std::accumulate(shard.begin(), shard.end(), 0.0);
  return all;
}

// Brings the classes' sums towards equal ones, then the shards' back to what they were, in turns (iterative
// proportional fitting): what is 0, a class that a shard lacks, stays 0.
void fit(Shares& shares, const std::vector<double>& sizes) {
  constexpr int kMostTurns = 500;
  constexpr double kClose = 1e-6;
  const std::size_t classes = shares.front().size();
  const auto occurring = static_cast<double>(std::ranges::count_if(
      std::views::iota(std::size_t{0}, classes), [&](std::size_t c) { return sum_of(shares, c) > 0; }));
  const double equal = draws_of(shares) / std::max(1.0, occurring);
  for (int turn = 0; turn < kMostTurns; ++turn) {
    double worst = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const double sum = sum_of(shares, c);
      if (sum <= 0) continue;
      worst = std::max(worst, std::abs(sum / equal - 1));
      for (auto& shard : shares) shard[c] *= equal / sum;
    }
    for (std::size_t s = 0; s < shares.size(); ++s) {
      const double sum = std::accumulate(shares[s].begin(), shares[s].end(), 0.0);
      if (sum <= 0) continue;
      for (double& share : shares[s]) share *= sizes[s] / sum;
    }
    if (worst < kClose) return;
  }
}

// Whole numbers: what a shard rounds off a class, the next shards make up for.
std::vector<Index> rounded(const std::vector<double>& shares, Index size, std::vector<double>& owed) {
  std::vector<Index> whole(shares.size());
  std::vector<std::size_t> order;
  Index left = size;
  for (std::size_t c = 0; c < shares.size(); ++c) {
    if (shares[c] <= 0) continue;
    owed[c] += shares[c];
    whole[c] = std::min(left, static_cast<Index>(std::max(0.0, std::floor(owed[c]))));
    owed[c] -= static_cast<double>(whole[c]);
    left -= whole[c];
    order.push_back(c);
  }
  for (; left > 0 && !order.empty(); --left) {
    const std::size_t c = *std::ranges::max_element(order, {}, [&](std::size_t i) { return owed[i]; });
    ++whole[c];
    owed[c] -= 1;
  }
  return whole;
}

}  // namespace

ClassQuotas class_quotas(const std::vector<std::int32_t>& classes, std::span<const Range> shards) {
  const std::int32_t most = classes.empty() ? -1 : *std::ranges::max_element(classes);
  const auto count = static_cast<std::size_t>(std::max(most, -1) + 1);
  if (count == 0) return ClassQuotas(shards.size());
  Shares shares(shards.size(), std::vector<double>(count));
  std::vector<double> sizes;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    for (Index id = shards[s].first; id < shards[s].first + shards[s].count; ++id)
      if (const std::int32_t c = classes[static_cast<std::size_t>(id)]; c >= 0)
        shares[s][static_cast<std::size_t>(c)] = 1;
    const double there = std::accumulate(shares[s].begin(), shares[s].end(), 0.0);
    sizes.push_back(there > 0 ? static_cast<double>(shards[s].count) : 0);
    for (double& share : shares[s]) share *= there > 0 ? sizes[s] / there : 0;
  }
  fit(shares, sizes);
  ClassQuotas quotas;
  std::vector<double> owed(count);
  for (std::size_t s = 0; s < shards.size(); ++s)
    quotas.push_back(rounded(shares[s], static_cast<Index>(sizes[s]), owed));
  return quotas;
}

ClassBalance balance_classes(std::vector<std::int32_t> classes, const OrderSettings& order) {
  std::vector<Range> shards;
  const int parts = visits_all(order) ? 1 : order.shards;
  for (int shard = 0; shard < parts; ++shard) shards.push_back(piece(order.samples, shard, parts));
  ClassQuotas quotas = class_quotas(classes, shards);
  return {std::move(classes), std::move(quotas)};
}

std::string unbalanced_text(const ClassQuotas& quotas) {
  constexpr double kFewest = 0.9;  // of the draws of a class where all come equally often
  const std::size_t classes = quotas.empty() ? 0 : quotas.front().size();
  std::vector<Index> draws(classes);
  std::vector<int> shards(classes);
  for (const auto& shard : quotas)
    for (std::size_t c = 0; c < classes; ++c) draws[c] += shard[c], shards[c] += shard[c] > 0;
  const Index all = std::accumulate(draws.begin(), draws.end(), Index{0});
  const auto occurring = std::ranges::count_if(draws, [](Index d) { return d > 0; });
  if (occurring < 2) return {};
  std::size_t worst = 0;
  for (std::size_t c = 0; c < classes; ++c)
    if (draws[c] > 0 && (draws[worst] == 0 || draws[c] < draws[worst])) worst = c;
  const double equal = static_cast<double>(all) / static_cast<double>(occurring);
  // A draw more or less for each shard is rounding.
  if (static_cast<double>(draws[worst]) >= kFewest * equal - static_cast<double>(quotas.size())) return {};
  return fmt::format(
      "class {} has samples in {} of {} shards of the rows, so an epoch can draw it {} times instead of {:.0f}", worst,
      shards[worst], quotas.size(), draws[worst], equal);
}

std::vector<std::int64_t> draw_classes(const std::vector<std::int64_t>& ids, const std::vector<std::int32_t>& classes,
                                       const std::vector<Index>& quotas, std::uint64_t key) {
  std::vector<std::vector<std::int64_t>> members(quotas.size());
  for (const std::int64_t id : ids)
    if (const std::int32_t c = classes[static_cast<std::size_t>(id)]; c >= 0)
      members[static_cast<std::size_t>(c)].push_back(id);
  std::vector<std::int64_t> drawn;
  drawn.reserve(ids.size());
  for (std::size_t c = 0; c < quotas.size(); ++c)
    for (Index i = 0; i < quotas[c]; ++i) drawn.push_back(members[c][static_cast<std::size_t>(i) % members[c].size()]);
  if (drawn.empty()) return ids;
  Rng rng(mix(key, 0x62616c616e6365));  // "balance"
  for (std::size_t i = drawn.size(); i > 1; --i) std::swap(drawn[i - 1], drawn[rng.below(i)]);
  return drawn;
}

}  // namespace mrmf
