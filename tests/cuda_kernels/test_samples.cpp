// Sums over each sample's positions: group norm and global average pooling, and what is left of their scratch memory.
#include <doctest/doctest.h>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

const std::unique_ptr<Backend> reference = make_reference_backend();

struct Statistics {
  std::vector<float> gamma, beta, mean, inverse, dgamma, dbeta;
  Statistics(Rng& rng, const GroupNormSettings& s, Index n)
      : gamma(uniform(rng, s.channels, 0.5, 1.5)),
        beta(uniform(rng, s.channels)),
        mean(static_cast<std::size_t>(n * s.groups)),
        inverse(mean.size()),
        dgamma(gamma.size()),
        dbeta(gamma.size()) {}
  NormMemory memory() { return {gamma, beta, {}, {}, mean, inverse}; }
};

/// Scratch for at most `most` samples, and a value behind it.
std::vector<double> scratch_of(std::size_t bytes) { return std::vector<double>(bytes / sizeof(double) + 1, 99); }

}  // namespace

TEST_CASE("cuda kernels: group norm is the reference's, for any number of samples up to the largest") {
  Rng rng(5);
  constexpr Index most = 70;
  TwoEqualRanks other_half;  // of each sample, on another rank
  for (const GroupNormSettings& s :
       {GroupNormSettings{12, 4, 300}, GroupNormSettings{10, 2, 17}, GroupNormSettings{96, 1, 1},
        GroupNormSettings{3, 3, 4000}, GroupNormSettings{12, 4, 300, 1e-5F, 600},
        GroupNormSettings{10, 2, 17, 1e-5F, 34}, GroupNormSettings{96, 1, 1, 1e-5F, 2},
        GroupNormSettings{12, 4, 300, 1e-5F, 0, 0}, GroupNormSettings{10, 2, 17, 1e-5F, 34, 0.3F}})
    for (const cuda::Storage& storage : {float_storage, bf16_storage})
      for (const Index n : {Index{1}, Index{2}, Index{7}, most}) {
        if (n * s.positions * s.channels > 300000) continue;
        CAPTURE(s.channels);
        CAPTURE(n);
        const Shape shape{n, {1, 1, s.positions}, s.channels, 1};
        std::vector<float> x = exact(rng, shape.count()), dy = exact(rng, shape.count());
        std::vector<float> y(x.size()), dx(x.size());
        Statistics want(rng, s, n), got = want;
        const auto op = reference->group_norm(s, n);
        StepContext step;
        step.sample_sum = s.sample_positions > 0 ? &other_half : nullptr;
        op->forward(step, {shape, x}, want.memory(), {shape, y});
        op->backward(step, {shape, x}, {shape, dy}, want.memory(), want.dgamma, want.dbeta, {shape, dx});

        std::vector<double> scratch = scratch_of(cuda::group_norm_bytes(storage, s, most));
        const cuda::GroupNormWork norm{{nullptr, storage}, s, scratch.data(), step.sample_sum};
        const Stored stored_x(storage, shape, x), stored_dy(storage, shape, dy);
        Stored stored_y(storage, shape), stored_dx(storage, shape);
        cuda::group_norm_forward(norm, n, stored_x.data(), got.memory(), stored_y.data());
        cuda::group_norm_backward(
            norm, n, {stored_x.data(), stored_dy.data(), got.dgamma.data(), got.dbeta.data(), stored_dx.data()},
            got.memory());
        CHECK(distance(stored_y.values(), y) < tolerance(storage));
        CHECK(distance(stored_dx.values(), dx) < 2 * tolerance(storage));
        CHECK(distance(got.dgamma, want.dgamma) < 2e-6);
        CHECK(distance(got.dbeta, want.dbeta) < 2e-6);
        CHECK(distance(got.inverse, want.inverse) < 1e-6);
        CHECK(stored_y.pads_are_zero());
        CHECK(stored_dx.pads_are_zero());
        CHECK(scratch.back() == 99);
      }
}

TEST_CASE("cuda kernels: group norm of values far from zero keeps their deviation") {
  Rng rng(6);
  TwoEqualRanks other_half;
  for (const bool shared : {false, true}) {
    const GroupNormSettings s{8, 2, 500, 1e-5F, shared ? 1000 : 0};
    StepContext step;
    step.sample_sum = shared ? &other_half : nullptr;
    const Shape shape{3, {1, 1, s.positions}, s.channels, 1};
    std::vector<float> x = uniform(rng, shape.count()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += i % 8 < 4 ? 3000.0F : -500.0F;
    Statistics want(rng, s, 3), got = want;
    reference->group_norm(s, 3)->forward(step, {shape, x}, want.memory(), {shape, y});
    std::vector<double> scratch = scratch_of(cuda::group_norm_bytes(float_storage, s, 3));
    const Stored stored_x(float_storage, shape, x);
    Stored stored_y(float_storage, shape);
    cuda::group_norm_forward({{nullptr, float_storage}, s, scratch.data(), step.sample_sum}, 3, stored_x.data(),
                             got.memory(), stored_y.data());
    CHECK(distance(got.inverse, want.inverse) < 1e-5);
  }
}

TEST_CASE("cuda kernels: the mean over all positions, for any number of samples up to the largest") {
  Rng rng(7);
  constexpr Index most = 50;
  for (const cuda::Storage& storage : {float_storage, bf16_storage})
    for (const Index n : {Index{1}, Index{2}, Index{9}, most}) {
      const PoolGeometry g{PoolKind::average, 11, {5, 9, 20}, {5, 9, 20}, {5, 9, 20}};
      const Shape in{n, g.in, 11, 3}, out{n, {1, 1, 1}, 11, 3};
      std::vector<float> x = exact(rng, in.count()), y(static_cast<std::size_t>(out.count()));
      for (float& value : x) value += 1;  // otherwise the mean is next to nothing
      for (float& value : x) value = rounded_to_bf16(value);
      reference->pool(g, n)->forward({in, x}, {out, y}, {});
      std::vector<double> scratch = scratch_of(cuda::global_average_bytes(storage, g, most));
      const Stored stored_x(storage, in, x);
      Stored stored_y(storage, out);
      cuda::global_average({nullptr, storage}, g, n, stored_x.data(), stored_y.data(), scratch.data());
      CHECK(distance(stored_y.values(), y) < tolerance(storage));
      CHECK(stored_y.pads_are_zero());
      CHECK(scratch.back() == 99);
    }
}

}  // namespace mrmf::test
