#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {

TEST_CASE("cuda kernels: rounding to bfloat16, ties, infinities and NaN") {
  Rng rng(12);
  const float largest = 3.38953139e38F;  // of bfloat16
  std::vector<float> x{0.0F, 1.0F, 1.00390625F, 1.01171875F, -1.00390625F, 1e-30F, largest, HUGE_VALF, -HUGE_VALF};
  for (int i = 0; i < 1000; ++i) x.push_back(static_cast<float>(std::ldexp(rng.uniform(-1, 1), i % 60 - 30)));
  x.push_back(std::nanf(""));
  const Shape shape{1, {1, 1, 1}, std::ssize(x), 0};
  Stored y(bf16_storage, shape);
  cuda::import_activation({nullptr, bf16_storage}, shape, {1, 1, 1}, x.data(), y.data());
  const std::vector<float> values = y.values();
  for (std::size_t i = 0; i + 1 < x.size(); ++i) REQUIRE(values[i] == rounded_to_bf16(x[i]));
  CHECK(values[2] == 1.0F);       // a tie goes to the even mantissa, here down
  CHECK(values[3] == 1.015625F);  // and here up
  CHECK(std::isnan(values.back()));
}

TEST_CASE("cuda kernels: import and export convert any shape, average blocks, and zero the pads") {
  Rng rng(13);
  struct Case {
    Shape shape;
    Extent factors;
  };
  for (const Case& c : {Case{{3, {1, 1, 7}, 3, 1}, {1, 1, 1}}, Case{{1, {1, 1, 1}, 4320, 0}, {1, 1, 1}},
                        Case{{0, {1, 1, 4}, 3, 1}, {1, 1, 1}}, Case{{2, {4, 6, 8}, 4, 3}, {2, 1, 4}},
                        Case{{5, {1, 1, 12}, 9, 1}, {1, 1, 3}}})
    for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
      const PoolGeometry blocks{PoolKind::average, c.shape.channels, c.shape.spatial, c.factors, c.factors};
      const Shape small{c.shape.n, blocks.out(), c.shape.channels, c.shape.axes};
      const std::vector<float> x = exact(rng, c.shape.count());
      std::vector<float> expected(static_cast<std::size_t>(small.count())), back(expected.size());
      make_reference_backend()->pool(blocks, c.shape.n)->forward({c.shape, x}, {small, expected}, {});
      Stored y(storage, small);
      cuda::import_activation({nullptr, storage}, c.shape, c.factors, x.data(), y.data());
      CHECK(distance(y.values(), expected) < tolerance(storage));
      CHECK(y.pads_are_zero());
      cuda::export_activation({nullptr, storage}, small, y.data(), back.data());
      CHECK(back == y.values());
    }
}

TEST_CASE("cuda kernels: weights are packed with zeros around them and unpacked without") {
  Rng rng(14);
  for (const cuda::WeightShape& shape : {cuda::WeightShape{5, 3, 3}, {8, 27, 16}, {30, 4, 3}, {19, 1, 37}, {1, 1, 30}})
    for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
      const std::vector<float> w = exact(rng, shape.out * shape.taps * shape.in);
      const Index padded_out = storage.channels(shape.out), padded_in = storage.channels(shape.in);
      const Shape all{padded_out * shape.taps, {1, 1, 1}, shape.in, 0};
      Stored packed(storage, all);
      CHECK(shape.packed(storage) == packed.elements());
      cuda::pack_weights({nullptr, storage}, shape, w.data(), packed.data());
      std::vector<float> expected = w;
      expected.resize(static_cast<std::size_t>(all.count()), 0.0F);
      CHECK(packed.values() == expected);
      CHECK(packed.pads_are_zero());

      std::vector<float> gradient(static_cast<std::size_t>(shape.packed(storage)));
      std::iota(gradient.begin(), gradient.end(), 0.0F);
      std::vector<float> dw(w.size()), expected_dw;
      for (Index row = 0; row < shape.out * shape.taps; ++row)
        for (Index i = 0; i < shape.in; ++i) expected_dw.push_back(static_cast<float>(row * padded_in + i));
      cuda::unpack_weights({nullptr, storage}, shape, gradient.data(), dw.data());
      CHECK(dw == expected_dw);

      // There and back in the storage type: w is exact in it.
      std::vector<float> back(w.size(), NAN);
      cuda::unpack_stored_weights({nullptr, storage}, shape, packed.data(), back.data());
      CHECK(back == w);
    }
}

TEST_CASE("cuda kernels: reshape keeps the features of a sample in order, both ways") {
  Rng rng(15);
  for (const Shape& in : {Shape{3, {1, 1, 5}, 3, 1}, Shape{2, {2, 2, 2}, 16, 3}, Shape{4, {1, 3, 2}, 9, 2},
                          Shape{0, {1, 1, 5}, 3, 1}, Shape{2, {1, 1, 1}, 13, 1}})
    for (const cuda::Storage& storage : {float_storage, bf16_storage}) {
      const Shape flat{in.n, {1, 1, 1}, in.per_sample(), 0};
      const std::vector<float> x = exact(rng, in.count());
      const Stored stored(storage, in, x);
      Stored y(storage, flat), back(storage, in);
      cuda::reshape({nullptr, storage}, in, stored.data(), flat, y.data());
      CHECK(y.values() == x);
      CHECK(y.pads_are_zero());
      cuda::reshape({nullptr, storage}, flat, y.data(), in, back.data());
      CHECK(back.values() == x);
      CHECK(back.pads_are_zero());
      if (cuda::equal_form(storage, in, flat)) CHECK(y.memory() == stored.memory());
    }
}

TEST_CASE("cuda kernels: rows are gathered by id, in vectors or in words") {
  Rng rng(16);
  const std::vector<std::int64_t> ids{106, 100, 103, 103};  // row 0 has the id 100
  for (const std::size_t words : {8, 19}) {
    const std::vector<float> table = uniform(rng, static_cast<Index>(7 * words));
    std::vector<float> y(4 * words);
    cuda::gather_rows(nullptr, {table.data(), static_cast<Index>(4 * words), 100}, 4, ids.data(), y.data());
    for (std::size_t i = 0; i < y.size(); ++i)
      REQUIRE(y[i] == table[static_cast<std::size_t>(ids[i / words] - 100) * words + i % words]);
  }
}

TEST_CASE("cuda kernels: memory at odd addresses is refused before a kernel meets it") {
  std::vector<float> x(9);
  CHECK_THROWS_AS(cuda::copy({nullptr, float_storage}, 1, x.data() + 1, x.data()), FaultError);
}

}  // namespace mrmf::test
