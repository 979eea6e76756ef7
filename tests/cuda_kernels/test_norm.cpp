#include <doctest/doctest.h>

#include <cmath>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

struct NormCase {
  NormReluPool settings;
  bool plain;  // no activation: the reference's norm() instead of its norm_relu_pool()
  bool training = true;
  bool two_ranks = false;
};

/// Statistics of a part of the positions alone.
NormCase counting(NormReluPool settings, const Box& box) {
  settings.norm.in = settings.in;
  settings.norm.counted = box;
  return {settings, true};
}

/// A norm's memory and results, of one backend.
struct NormState {
  std::vector<float> gamma, beta, running_mean, running_variance, mean, inverse, dgamma, dbeta, y, dx;

  NormState(Rng& rng, Index c, Index out, Index in)
      : gamma(uniform(rng, c, 0.5, 1.5)),
        beta(uniform(rng, c)),
        running_mean(uniform(rng, c)),
        running_variance(uniform(rng, c, 0.5, 2)),
        mean(gamma.size()),
        inverse(gamma.size()),
        dgamma(gamma.size()),
        dbeta(gamma.size()),
        y(static_cast<std::size_t>(out)),
        dx(static_cast<std::size_t>(in)) {}
  NormMemory memory() { return {gamma, beta, running_mean, running_variance, mean, inverse}; }
};

struct NormRun {
  NormCase c;
  cuda::Storage storage;
  Index n;
  Shape in{n, c.settings.in, c.settings.norm.channels, 3};
  Shape out{n, c.settings.pool ? c.settings.pool->out() : in.spatial, in.channels, 3};
  TwoEqualRanks twice{};
  AllReduce* ranks() { return c.two_ranks ? &twice : nullptr; }

  void device(NormState& s, ConstSpan x, ConstSpan dy) {
    const std::size_t bytes = cuda::norm_scratch_bytes(storage, c.settings, n);
    std::vector<double> scratch(bytes / sizeof(double) + 1, 99);
    const cuda::NormWork norm{{nullptr, storage}, c.settings, scratch.data(), ranks()};
    const Stored stored_x(storage, in, x), stored_dy(storage, out, dy);
    Stored y(storage, out), dx(storage, in);
    cuda::norm_forward(norm, c.training, n, stored_x.data(), s.memory(), y.data());
    s.y = y.values();
    CHECK(y.pads_are_zero());
    if (!c.training) return;
    const cuda::NormBackward data{stored_x.data(), stored_dy.data(), s.dgamma.data(), s.dbeta.data(), dx.data()};
    cuda::norm_backward(norm, n, data, s.memory());
    s.dx = dx.values();
    CHECK(dx.pads_are_zero());
    CHECK(scratch.back() == 99);
  }
  void reference(NormState& s, ConstSpan x, ConstSpan dy) {
    const auto backend = make_reference_backend();
    const auto op = c.plain ? backend->norm(c.settings.norm, n) : backend->norm_relu_pool(c.settings, n);
    StepContext step;
    step.training = c.training;
    step.team_sum = ranks();
    op->forward(step, {in, x}, s.memory(), {out, s.y});
    if (c.training) op->backward(step, {in, x}, {out, dy}, s.memory(), s.dgamma, s.dbeta, {in, s.dx});
  }
};

/// Statistics agree to float32; dx is a difference of sums, so its bound is wider. bf16 rounds results alone, unlike
/// the statistics, which come from the same exact inputs.
void check_norm(NormRun run, ConstSpan x, Rng& rng) {
  const std::vector<float> dy = exact(rng, run.out.count());
  NormState device(rng, run.in.channels, run.out.count(), run.in.count()), expected = device;
  run.device(device, x, dy);
  run.reference(expected, x, dy);
  CHECK(distance(device.y, expected.y) < tolerance(run.storage));
  CHECK(distance(device.running_mean, expected.running_mean) < 1e-6);
  CHECK(distance(device.running_variance, expected.running_variance) < 1e-5);
  if (!run.c.training) return;
  CHECK(distance(device.mean, expected.mean) < 1e-6);
  CHECK(distance(device.inverse, expected.inverse) < 1e-6);
  CHECK(distance(device.dgamma, expected.dgamma) < 1e-5);
  CHECK(distance(device.dbeta, expected.dbeta) < 1e-5);
  CHECK(distance(device.dx, expected.dx) < std::max(1e-5, tolerance(run.storage)));

  NormState again = device;
  again.dx.clear(), again.y.clear();
  run.device(again, x, dy);
  CHECK(again.dx == device.dx);
  CHECK(again.dgamma == device.dgamma);
}

std::vector<NormCase> cases() {
  const auto pool = [](Index channels, const Extent& in, const Extent& window) {
    return PoolGeometry{PoolKind::average, channels, in, window, window};
  };
  const NormSettings c16{16, 0.1F, 1e-3F}, c5{5, 0.01F, 1e-5F}, c90{90, 0.1F, 1e-5F};
  std::vector<NormCase> all{
      {cuda::plain_norm(c16, 33), true},
      {cuda::plain_norm(c5, 1), true},
      {cuda::plain_norm({1300, 0.1F, 1e-5F}, 1), true},
      {{c16, {4, 6, 4}, 3, 0, pool(16, {4, 6, 4}, {2, 2, 2})}, false},
      {{c5, {5, 7, 6}, 3, 0.3F, pool(5, {5, 7, 6}, {2, 2, 2})}, false},
      {{c5, {1, 7, 9}, 2, 0.1F, pool(5, {1, 7, 9}, {1, 2, 4})}, false},
      {{c90, {1, 1, 50}, 1, 0, pool(90, {1, 1, 50}, {1, 1, 4})}, false},
      {{c90, {1, 1, 50}, 1, 0, std::nullopt}, false},
      counting({c16, {4, 6, 5}, 3, 1, std::nullopt}, {{1, 0, 2}, {2, 6, 3}}),
      counting({c5, {1, 1, 33}, 1, 1, std::nullopt}, {{0, 0, 1}, {1, 1, 31}}),
      counting({c90, {1, 9, 7}, 2, 1, std::nullopt}, {{0, 3, 0}, {1, 5, 7}}),
  };
  for (std::size_t i = 0, count = all.size(); i < count; ++i) {
    NormCase c = all[i];
    c.training = false;
    all.push_back(c);
    c.training = c.two_ranks = true;
    all.push_back(c);
  }
  return all;
}

}  // namespace

TEST_CASE("cuda kernels: batch norm, alone and with ReLU and average pooling behind it, is the reference's") {
  Rng rng(5);
  for (const NormCase& c : cases())
    for (const cuda::Storage& storage : {float_storage, bf16_storage})
      for (const Index n : {3, 21}) {
        CAPTURE(c.settings.in);
        CAPTURE(c.settings.norm.channels);
        CAPTURE(c.two_ranks);
        CAPTURE(storage.bf16);
        const NormRun run{c, storage, n};
        check_norm(run, exact(rng, run.in.count()), rng);
      }
}

TEST_CASE("cuda kernels: batch norm's statistics are of the positions that count, whatever lies beside them") {
  Rng rng(8);
  const NormCase c = counting({{3, 0.1F, 1e-5F}, {1, 4, 5}, 2, 1, std::nullopt}, {{0, 1, 1}, {1, 2, 3}});
  const NormRun run{c, float_storage, 2};
  std::vector<float> x = exact(rng, run.in.count()), beside = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t column = i / 3 % 5, line = i / 15 % 4;
    if (column < 1 || column > 3 || line < 1 || line > 2) beside[i] = 1e6F;
  }
  NormState one(rng, 3, run.out.count(), run.in.count()), other = one;
  NormRun(run).device(one, x, x);
  NormRun(run).device(other, beside, x);
  CHECK(one.mean == other.mean);
  CHECK(one.inverse == other.inverse);
}

TEST_CASE("cuda kernels: batch norm statistics bear a mean far from zero, and an outlier in the first row") {
  Rng rng(6);
  for (const bool two_ranks : {false, true}) {
    const NormCase c{cuda::plain_norm({3, 0.1F, 1e-5F}, 40), true, true, two_ranks};
    const NormRun run{c, float_storage, 30};
    std::vector<float> far = uniform(rng, run.in.count(), 9999, 10001);
    far[1] = -3e4F;
    NormRun once = run;
    NormState device(rng, 3, run.out.count(), run.in.count()), expected = device;
    once.device(device, far, std::vector<float>(far.size()));
    once.reference(expected, far, std::vector<float>(far.size()));
    CHECK(distance(device.inverse, expected.inverse) < 1e-5);
    CHECK(distance(device.running_variance, expected.running_variance) < 1e-5);
    // One float32 step at 1e4 is 1e-3 of the deviation; both round the same mean, so results agree better than that.
    CHECK(distance(device.y, expected.y) < 1e-4);
  }
}

TEST_CASE("cuda kernels: batch norm of a constant channel, of one row, with NaN") {
  Rng rng(7);
  const NormCase c{cuda::plain_norm({2, 0.1F, 1e-5F}, 1), true};
  NormState s(rng, 2, 2, 2);
  NormRun{c, float_storage, 1}.device(s, std::vector<float>{1e6F, 3}, std::vector<float>{1, 2});
  CHECK(s.y == s.beta);
  CHECK(s.dx == std::vector<float>{0, 0});
  CHECK(s.inverse[0] == doctest::Approx(1 / std::sqrt(1e-5)));
  NormState t(rng, 2, 6, 6);
  NormRun{c, float_storage, 3}.device(t, std::vector<float>{1, 2, std::nanf(""), 3, 2, 5}, std::vector<float>(6, 1));
  CHECK(std::isnan(t.y[0]));
  CHECK(!std::isnan(t.y[1]));
  CHECK(std::isnan(t.running_mean[0]));
}

}  // namespace mrmf::test
