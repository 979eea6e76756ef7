// Epochs in which classes come equally often (data.sampling = "balanced"): pure functions, no files, no MPI.
//
// A shard draws as many samples as it has, and only samples of its own. Classes are balanced over all shards together:
// a shard that lacks a class draws more of the others, and shards that have it draw more of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/rows/sample_order.hpp"

namespace mrmf {

/// How many samples of each class a shard draws in an epoch: [shard][class].
using ClassQuotas = std::vector<std::vector<Index>>;

/// What the epochs of a data set draw of its classes.
struct ClassBalance {
  std::vector<std::int32_t> classes;  ///< of every sample, below 0 where it has none
  ClassQuotas quotas;                 ///< of every shard; of all samples together where they are shuffled together
};

/// The quotas of these shards. A shard's add up to its samples, or to 0 where none of its samples has a class. Each
/// class's add up to an equal share of all draws, where the shards allow that, up to one draw for each shard.
ClassQuotas class_quotas(const std::vector<std::int32_t>& classes, std::span<const Range> shards);

/// The balance of samples that are visited in this order.
ClassBalance balance_classes(std::vector<std::int32_t> classes, const OrderSettings& order);

/// Why classes cannot come equally often, with the class that lacks most draws; empty where they can.
std::string unbalanced_text(const ClassQuotas& quotas);

/// As many samples of each class as its quota says: those of a class are taken in the order of ids, again from the
/// start where they are too few; then all are shuffled. The ids themselves where the quotas are all 0.
std::vector<std::int64_t> draw_classes(const std::vector<std::int64_t>& ids, const std::vector<std::int32_t>& classes,
                                       const std::vector<Index>& quotas, std::uint64_t key);

}  // namespace mrmf
