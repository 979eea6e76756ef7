#include "io/rows/sample_order.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "io/rows/balanced_draws.hpp"
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

}  // namespace mrmf
