// Stored activations made and read by the tests' own code, so that the conversions under test are not their oracle.
#pragma once

#include <limits>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/random.hpp"

namespace mrmf::test {

inline const cuda::Storage float_storage = cuda::Storage::of(false), bf16_storage = cuda::Storage::of(true);

/// The bfloat16 nearest to x, ties to even, by arithmetic on the value alone.
float rounded_to_bf16(float x);
std::vector<float> uniform(Rng& rng, Index count, double low = -1, double high = 1);
/// uniform() values that both storages hold exactly.
std::vector<float> exact(Rng& rng, Index count);

/// Stands for two ranks with the same values.
class TwoEqualRanks final : public AllReduce {
 public:
  void sum(std::span<double> values) override {
    for (double& v : values) v *= 2;
  }
  void start(Span) override {}
  void finish() override {}
  SumTime take_time() override { return {}; }
};

/// ||a - b|| / ||b||, or the norm of a where b is zero.
double distance(ConstSpan a, ConstSpan b);
/// Bound on distance(): float32 results of short sums, or one rounding to 8 bits of mantissa, 2^-9, with a reserve.
inline double tolerance(const cuda::Storage& storage) { return storage.bf16 ? 3e-3 : 1e-6; }

class Stored {
 public:
  /// Full of NaN, pads included: what an operation forgets to write shows.
  Stored(const cuda::Storage& storage, const Shape& shape);
  Stored(const cuda::Storage& storage, const Shape& shape, ConstSpan values);

  void* data() { return memory_.data(); }
  const void* data() const { return memory_.data(); }
  const std::vector<float>& memory() const { return memory_; }
  Index vectors() const { return std::ssize(memory_) / 4; }
  Index elements() const { return vectors() * storage_.pad; }
  std::vector<float> values() const;  ///< without pads
  bool pads_are_zero() const;

 private:
  float element(Index i) const;
  void set(Index i, float value);
  template <class Use>
  void for_each_element(Use use) const;  // use(stored element, logical element or -1)

  cuda::Storage storage_;
  Shape shape_;
  std::vector<float> memory_;
};

}  // namespace mrmf::test
