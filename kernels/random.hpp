// Counter-based random numbers (Philox 4x32-10, Salmon et al., SC'11): a value is a pure function of a key and
// a counter, so results do not depend on threads, ranks or the order of evaluation.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kernels/tensor.hpp"

namespace mrmf {

using Random4 = std::array<std::uint32_t, 4>;

/// Four 32-bit values for (key, counter).
MRMF_HD constexpr Random4 philox(std::uint64_t key, Random4 counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return counter;
}

/// Mixes words into one 64-bit key (splitmix64 finaliser), e.g. key(seed, stage, epoch).
MRMF_HD constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0) {
  std::uint64_t h = 0;
  for (const std::uint64_t word : {a, b, c}) {
    h += 0x9E3779B97F4A7C15ULL + word;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBULL;
    h ^= h >> 31;
  }
  return h;
}

/// A stream of random numbers over philox: copyable, 24 bytes, the same on every machine.
class Rng {
 public:
  explicit Rng(std::uint64_t key) : key_(key) {}

  std::uint32_t next() {
    if (used_ == 4) {
      block_ = philox(key_, {static_cast<std::uint32_t>(counter_), static_cast<std::uint32_t>(counter_ >> 32), 0, 0});
      ++counter_;
      used_ = 0;
    }
    return block_[used_++];
  }
  /// Uniform in [0, 1), 53 bits.
  double uniform() {
    const std::uint64_t high = next();
    const std::uint64_t low = next();
    return static_cast<double>(((high << 32) | low) >> 11) * 0x1.0p-53;
  }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Standard normal (Box-Muller, one value per call).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }
  /// Uniform in [0, bound); bound > 0. Bias below bound / 2^64.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t high = next();
    return ((high << 32) | next()) % bound;
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
  Random4 block_{};
  std::size_t used_ = 4;
};

}  // namespace mrmf
