#include <doctest/doctest.h>

#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_and_reduce.cuh"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

std::vector<float> sums_of(const cuda::Storage& storage, const Shape& shape, const Stored& x) {
  const Index rows = shape.n * product(shape.spatial);
  std::vector<float> sums(static_cast<std::size_t>(shape.channels), 77);
  std::vector<double> scratch(cuda::channel_sums_bytes(storage, rows, shape.channels) / sizeof(double) + 1, 99);
  cuda::channel_sums({nullptr, storage}, rows, shape.channels, x.data(), sums.data(), scratch.data());
  CHECK(scratch.back() == 99);
  return sums;
}

}  // namespace

TEST_CASE("cuda kernels: division by multiplication is division") {
  Rng rng(3);
  for (int i = 0; i < 20000; ++i) {
    const auto divisor = static_cast<std::uint32_t>(1 + rng.below(i < 10000 ? 2000 : 0x7FFFFFFE));
    const cuda::Divider by(divisor);
    const auto multiple = static_cast<std::uint32_t>(rng.below(0x80000000U / divisor + 1)) * divisor;
    for (const std::uint32_t n : {0U, 1U, multiple, multiple - 1, multiple + divisor - 1, 0x7FFFFFFFU}) {
      if (n > 0x7FFFFFFFU) continue;
      std::uint32_t quotient = n;
      const std::uint32_t remainder = by.take(quotient);
      REQUIRE(quotient == n / divisor);
      REQUIRE(remainder == n % divisor);
    }
  }
  CHECK_THROWS_AS(cuda::count32(Index{1} << 31), FaultError);
}

TEST_CASE("cuda kernels: channel sums for no rows, few, one block and many, narrow and wide") {
  Rng rng(4);
  for (const cuda::Storage& storage : {float_storage, bf16_storage})
    for (const Index channels : {1, 3, 8, 30, 90, 180, 1025, 4320})
      for (const Index rows : {0, 1, 7, 300, 5000}) {
        if (rows * channels > 2000000) continue;
        CAPTURE(channels);
        CAPTURE(rows);
        const Shape shape{rows, {1, 1, 1}, channels, 0};
        const std::vector<float> values = exact(rng, shape.count());
        const Stored x(storage, shape, values);
        const std::vector<float> sums = sums_of(storage, shape, x);
        std::vector<double> expected(sums.size());
        for (std::size_t i = 0; i < values.size(); ++i) expected[i % sums.size()] += values[i];
        // Eight values are added in float32 (their sum is below 8), the rest in double.
        for (std::size_t c = 0; c < sums.size(); ++c)
          REQUIRE(std::abs(sums[c] - expected[c]) <= 1e-6 + 6e-8 * static_cast<double>(rows));
        REQUIRE(sums_of(storage, shape, x) == sums);
      }
}

TEST_CASE("cuda kernels: long sums keep double precision") {
  // In float32 alone 2^24 + 1 + 1 + ... would stay at 2^24.
  const Shape shape{100000, {1, 1, 1}, 1, 0};
  std::vector<float> values(100000, 1.0F);
  values[0] = 16777216.0F;
  const Stored x(float_storage, shape, values);
  CHECK(std::abs(sums_of(float_storage, shape, x)[0] - 16877215.0F) <= 8);  // eight rows share the large value's sum
}

}  // namespace mrmf::test
