#include "io/rows/sample_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ranges>
#include <string>
#include <utility>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"

namespace mrmf {
namespace {

/// The rows of this rank's shards.
Range own_rows(const OrderSettings& settings) {
  const Index own = settings.shards / settings.ranks;
  const Range first = piece(settings.samples, settings.rank * own, settings.shards);
  const Range last = piece(settings.samples, (settings.rank + 1) * own - 1, settings.shards);
  return {first.first, last.first + last.count - first.first};
}

/// The indices of these rows, in order or shuffled.
std::vector<std::int64_t> indices(const Range& rows, bool shuffle, std::uint64_t key) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows.count));
  std::iota(ids.begin(), ids.end(), rows.first);
  if (!shuffle) return ids;
  Rng rng(key);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[rng.below(i)]);  // Fisher-Yates
  return ids;
}

/// What an epoch takes of these samples: their boxes, where each has several.
Range taken(const Range& samples, const OrderSettings& s) {
  return {samples.first * s.repeats, samples.count * s.repeats};
}

/// The ids of each of this rank's shards, in an epoch's order.
std::vector<std::vector<std::int64_t>> own_shards(const OrderSettings& s, std::uint64_t key) {
  const Index own = s.shards / s.ranks;
  auto all = indices(taken({0, visits_all(s) ? s.samples : 0}, s), true, key);
  if (s.balance && visits_all(s)) all = draw_classes(all, s.balance->classes, s.balance->quotas.front(), key);
  std::vector<std::vector<std::int64_t>> shards;
  for (Index shard = s.rank * own; shard < (s.rank + 1) * own; ++shard) {
    const Range rows = taken(piece(s.samples, shard, s.shards), s);
    const std::uint64_t shard_key = mix(key, static_cast<std::uint64_t>(shard));
    if (visits_all(s)) {
      shards.emplace_back(all.begin() + rows.first, all.begin() + rows.first + rows.count);
      continue;
    }
    shards.push_back(indices(rows, s.shuffle, shard_key));
    if (s.balance)
      shards.back() = draw_classes(shards.back(), s.balance->classes,
                                   s.balance->quotas[static_cast<std::size_t>(shard)], shard_key);
  }
  return shards;
}

std::string plural(Index count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

bool visits_all(const OrderSettings& settings) { return settings.shuffle && settings.across; }

Range piece(Index count, Index part, Index parts) {
  const Index size = count / parts, larger = count % parts;  // the first `larger` pieces have one more
  return {part * size + std::min(part, larger), size + (part < larger ? 1 : 0)};
}

Range visited_rows(const OrderSettings& settings) {
  return visits_all(settings) ? Range{0, settings.samples} : own_rows(settings);
}

Index rows_per_shard(const OrderSettings& s) { return s.batch * s.ranks / s.shards; }

Index steps_per_epoch(const OrderSettings& settings) {
  const Index largest = piece(settings.samples, 0, settings.shards).count * settings.repeats;
  const Index rows = rows_per_shard(settings);
  return (largest + rows - 1) / rows;
}

Index largest_batch(const OrderSettings& settings) {
  return settings.samples / settings.shards * settings.repeats * (settings.shards / settings.ranks);
}

EpochOrder epoch_order(const OrderSettings& settings, std::uint64_t seed, std::uint64_t phase_key,
                       std::uint64_t epoch) {
  const Index steps = steps_per_epoch(settings);
  const auto shards = own_shards(settings, mix(seed, phase_key, epoch));
  EpochOrder order;
  order.key = mix(seed, phase_key, epoch);
  order.ids.reserve(static_cast<std::size_t>(taken(own_rows(settings), settings).count));
  for (Index step = 0; step < steps; ++step) {
    const auto start = static_cast<Index>(order.ids.size());
    for (const auto& ids : shards) {
      const Range rows = piece(static_cast<Index>(ids.size()), step, steps);
      order.ids.insert(order.ids.end(), ids.begin() + rows.first, ids.begin() + rows.first + rows.count);
      order.shard_rows.push_back(rows.count);
    }
    order.steps.push_back({start, static_cast<Index>(order.ids.size()) - start});

    // Only two shard sizes occur: the first samples % shards have one row more.
    const Index larger = settings.samples % settings.shards, size = settings.samples / settings.shards;
    order.global_rows.push_back(larger * piece((size + 1) * settings.repeats, step, steps).count +
                                (settings.shards - larger) * piece(size * settings.repeats, step, steps).count);
  }
  return order;
}

EpochOrder in_order(Range rows, Index batch) {
  EpochOrder order;
  order.ids.resize(static_cast<std::size_t>(rows.count));
  std::iota(order.ids.begin(), order.ids.end(), rows.first);
  for (Index row = 0; row < rows.count; row += batch) {
    order.steps.push_back({row, std::min(batch, rows.count - row)});
    order.global_rows.push_back(order.steps.back().count);
  }
  return order;
}

void check(const OrderSettings& s) {
  if (s.ranks < 1 || s.rank < 0 || s.rank >= s.ranks)
    throw ConfigError("rank " + std::to_string(s.rank) + " of " + std::to_string(s.ranks) + " does not exist");
  if (s.batch < 1) throw ConfigError("batch = " + std::to_string(s.batch) + ": must be at least 1");
  if (s.shards < 1 || s.shards % s.ranks != 0)
    throw ConfigError("data.shards = " + std::to_string(s.shards) + " is not a multiple of the " +
                      plural(s.ranks, "rank") + "; use a multiple, or 0 for one shard per rank");
  if (s.batch * s.ranks % s.shards != 0)
    throw ConfigError("batch = " + std::to_string(s.batch) + " on " + plural(s.ranks, "rank") +
                      " cannot be taken in equal parts from data.shards = " + std::to_string(s.shards) +
                      "; use a multiple of " + std::to_string(s.shards / s.ranks));
  if (s.samples < s.shards)
    throw ConfigError(plural(s.samples, "sample") + " cannot be cut into " + plural(s.shards, "shard") +
                      "; use fewer ranks or shards, or more data");
  if (s.batch > largest_batch(s))
    throw ConfigError("batch = " + std::to_string(s.batch) + " is larger than a rank's shard of the data (" +
                      plural(s.samples, "sample") + " on " + plural(s.ranks, "rank") + "); use a batch of at most " +
                      std::to_string(largest_batch(s)) + ", or fewer ranks");
}

bool leaves_ranks_idle(const OrderSettings& s) {
  const bool idle_shards =
      s.samples / s.shards * s.repeats < steps_per_epoch(s);                    // one row per step, shards of two sizes
  return idle_shards && s.samples % s.shards <= s.shards - s.shards / s.ranks;  // the last rank has only small shards
}

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
  constexpr double kFewest = 0.9;  // the least share of the draws that a class has where all come equally often
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

namespace {

constexpr std::uint64_t kPatches = 0x7061746368;  // apart from other uses of an epoch's key

// One of the classes that the sample has, and one of its positions.
const Index* foreground_position(const Foreground* foreground, Rng& random) {
  if (foreground == nullptr) return nullptr;
  std::vector<const std::vector<Index>*> there;
  for (const std::vector<Index>& of_class : *foreground)
    if (!of_class.empty()) there.push_back(&of_class);
  if (there.empty()) return nullptr;
  const std::vector<Index>& chosen = *there[random.below(there.size())];
  return &chosen[random.below(chosen.size())];
}

Index below(Rng& random, Index count) { return static_cast<Index>(random.below(static_cast<std::uint64_t>(count))); }

}  // namespace

Shape patch_of(const PatchSettings& settings, const Shape& sample) {
  Shape patch = sample;
  const auto axes = settings.size.size();
  for (std::size_t a = 0; a < axes; ++a) {
    Index& positions = patch.spatial.at(3 - axes + a);
    positions = std::min(positions, settings.size[a]);
  }
  return patch;
}

Index patches_of(const PatchSettings& settings, const Shape& sample) {
  const Shape patch = patch_of(settings, sample);
  Index count = 1;
  for (std::size_t a = 0; a < 3; ++a) count *= (sample.spatial[a] + patch.spatial[a] - 1) / patch.spatial[a];
  return count;
}

Box draw_patch(const PatchDraw& of, std::uint64_t key, std::int64_t number) {
  Rng random(mix(key, kPatches, static_cast<std::uint64_t>(number)));
  const Extent &size = of.sample.spatial, count = patch_of(of.settings, of.sample).spatial;
  const bool near = random.uniform() < of.settings.foreground;
  const Index* const around = near ? foreground_position(of.foreground, random) : nullptr;
  Box box{.first = {0, 0, 0}, .count = count};
  Index rest = around != nullptr ? *around : 0;
  for (std::size_t a = 3; a-- > 0;) {
    const Index fine = size[a] * of.factor[a], at = rest % fine / of.factor[a];
    rest /= fine;
    const Index first = around != nullptr ? at - below(random, count[a]) : below(random, size[a] - count[a] + 1);
    box.first[a] = std::clamp<Index>(first, 0, size[a] - count[a]);
  }
  return box;
}

Box at_original(const Box& box, const Extent& factor) {
  Box fine = box;
  for (std::size_t a = 0; a < 3; ++a) fine.first[a] *= factor[a], fine.count[a] *= factor[a];
  return fine;
}

void cut_box(const Shape& sample, Index bytes, const std::byte* from, const Box& box, std::byte* to) {
  const Extent& s = sample.spatial;
  MRMF_CHECK(contains({.count = s}, box), "positions that are not there");
  const Index position = sample.channels * bytes, line = box.count[2] * position;
  for (Index i = box.first[0]; i < box.end(0); ++i)
    for (Index j = box.first[1]; j < box.end(1); ++j, to += line)
      std::memcpy(to, from + ((i * s[1] + j) * s[2] + box.first[2]) * position, static_cast<std::size_t>(line));
}

}  // namespace mrmf
