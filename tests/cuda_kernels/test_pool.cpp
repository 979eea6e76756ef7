#include <doctest/doctest.h>

#include <cmath>

#include "kernels/cuda/kernels.hpp"
#include "tests/cuda_kernels/stored.hpp"

namespace mrmf::test {
namespace {

using cuda::Storage;
using cuda::Work;

const Storage& storage_of(int i) { return i == 0 ? float_storage : bf16_storage; }

std::vector<PoolGeometry> geometries(PoolKind kind) {
  return {{kind, 30, {1, 1, 39}, {1, 1, 4}, {1, 1, 4}}, {kind, 1, {1, 1, 10}, {1, 1, 2}, {1, 1, 2}},
          {kind, 3, {1, 1, 11}, {1, 1, 3}, {1, 1, 1}},  {kind, 8, {1, 1, 11}, {1, 1, 2}, {1, 1, 3}},
          {kind, 4, {1, 7, 8}, {1, 2, 3}, {1, 2, 3}},   {kind, 9, {1, 6, 7}, {1, 3, 3}, {1, 2, 2}},
          {kind, 16, {4, 6, 4}, {2, 2, 2}, {2, 2, 2}},  {kind, 3, {5, 7, 6}, {2, 3, 2}, {1, 2, 3}},
          {kind, 12, {5, 3, 7}, {2, 2, 2}, {2, 2, 2}},  {kind, 8, {4, 8, 8}, {4, 8, 8}, {4, 8, 8}}};
}

/// Winners of stored elements, without those of pads.
std::vector<std::uint8_t> logical(const std::vector<std::uint8_t>& stored, const Storage& storage, Index channels) {
  std::vector<std::uint8_t> result;
  const Index row = storage.channels(channels);
  for (Index i = 0; i < std::ssize(stored); ++i)
    if (i % row < channels) result.push_back(stored[static_cast<std::size_t>(i)]);
  return result;
}

/// A pooling and the reference beside it.
struct PoolCase {
  PoolGeometry g;
  Storage storage;
  Index n;
  Shape in{n, g.in, g.channels, 3}, out{n, g.out(), g.channels, 3};
  std::vector<std::uint8_t> winner =
      std::vector<std::uint8_t>(static_cast<std::size_t>(n * product(g.out()) * storage.channels(g.channels)), 255);
  std::vector<std::uint8_t> expected_winner = std::vector<std::uint8_t>(static_cast<std::size_t>(out.count()), 255);
  std::unique_ptr<Backend> reference = make_reference_backend();
  std::unique_ptr<PoolOp> op = reference->pool(g, n);

  std::uint8_t* winners() { return g.kind == PoolKind::max ? winner.data() : nullptr; }
};

void check_pool(PoolCase c, Rng& rng) {
  const Work work{nullptr, c.storage};
  const std::vector<float> x = exact(rng, c.in.count()), dy = exact(rng, c.out.count());
  const Stored stored_x(c.storage, c.in, x), stored_dy(c.storage, c.out, dy);
  Stored y(c.storage, c.out), dx(c.storage, c.in);
  cuda::pool_forward(work, c.g, c.n, stored_x.data(), y.data(), c.winners());
  cuda::pool_backward(work, c.g, c.n, stored_dy.data(), c.winners(), dx.data());

  std::vector<float> expected(static_cast<std::size_t>(c.out.count())), expected_dx(x.size());
  c.op->forward({c.in, x}, {c.out, expected}, c.expected_winner);
  c.op->backward({c.out, dy}, c.expected_winner, {c.in, expected_dx});
  CHECK(y.pads_are_zero());
  CHECK(dx.pads_are_zero());
  CHECK(distance(y.values(), expected) < tolerance(c.storage));
  CHECK(distance(dx.values(), expected_dx) < tolerance(c.storage));
  if (c.g.kind == PoolKind::max) CHECK(logical(c.winner, c.storage, c.g.channels) == c.expected_winner);
}

}  // namespace

TEST_CASE("cuda kernels: pooling forward and backward are the reference's") {
  Rng rng(1);
  for (const PoolKind kind : {PoolKind::max, PoolKind::average})
    for (const PoolGeometry& g : geometries(kind))
      for (int s = 0; s < 2; ++s)
        for (const Index n : {0, 1, 3}) {
          CAPTURE(g.in);
          CAPTURE(s);
          check_pool({g, storage_of(s), n}, rng);
        }
}

TEST_CASE("cuda kernels: NaN wins in max pooling and passes through bias and ReLU") {
  const PoolGeometry g{PoolKind::max, 5, {1, 1, 6}, {1, 1, 3}, {1, 1, 3}};
  std::vector<float> x(30, 1.0F);
  x[2 * 5 + 4] = std::nanf("");
  for (int s = 0; s < 2; ++s) {
    const Stored in(storage_of(s), {1, g.in, 5, 1}, x);
    Stored y(storage_of(s), {1, g.out(), 5, 1}), p = y;
    std::vector<std::uint8_t> winner(32);
    cuda::pool_forward({nullptr, storage_of(s)}, g, 1, in.data(), y.data(), winner.data());
    CHECK(winner[4] == 2);
    CHECK(winner[3] == 0);
    CHECK(std::isnan(y.values()[4]));
    CHECK(y.values()[9] == 1);
    const std::vector<float> b(5, -3.0F);
    cuda::bias_pool_forward({nullptr, storage_of(s)}, g, 1, {in.data(), b.data(), p.data(), winner.data()});
    CHECK(std::isnan(p.values()[4]));
    CHECK(p.values()[9] == 0);
  }
}

TEST_CASE("cuda kernels: bias, max pooling and ReLU in one pass are the reference's three") {
  Rng rng(2);
  for (PoolGeometry g : geometries(PoolKind::max))
    for (int s = 0; s < 2; ++s)
      for (const Index n : {1, 40}) {
        if (product(g.window) > 200 || g.stride != g.window) continue;
        CAPTURE(g.in);
        CAPTURE(s);
        PoolCase c{g, storage_of(s), n};
        const Work work{nullptr, c.storage};
        const std::vector<float> y = exact(rng, c.in.count()), b = uniform(rng, g.channels, -0.5, 0.5);
        const std::vector<float> dp = exact(rng, c.out.count());
        const Stored stored_y(c.storage, c.in, y), stored_dp(c.storage, c.out, dp);
        Stored p(c.storage, c.out), dy(c.storage, c.in);
        std::vector<float> db(b.size(), 77);
        std::vector<double> scratch(cuda::bias_pool_bytes(c.storage, g, n) / sizeof(double) + 1, 99);
        cuda::bias_pool_forward(work, g, n, {stored_y.data(), b.data(), p.data(), c.winners()});
        const std::vector<float> out = p.values();
        cuda::bias_pool_backward(work, g, n,
                                 {p.data(), stored_dp.data(), c.winners(), dy.data(), db.data(), scratch.data()});

        std::vector<float> biased = y, expected(out.size()), masked = dp, expected_dy(y.size()), expected_db(b.size());
        for (std::size_t i = 0; i < y.size(); ++i) biased[i] += b[i % b.size()];
        c.op->forward({c.in, biased}, {c.out, expected}, c.expected_winner);
        c.reference->activate(ActivationKind::relu, 0, {c.out, expected}, {c.out, expected});
        CHECK(distance(out, expected) < tolerance(c.storage));
        // From here on the reference gets the kernel's winners: adding the bias may make values equal in float32.
        c.reference->activate_backward(ActivationKind::relu, 0, {c.out, out}, {c.out, dp}, {c.out, masked});
        c.op->backward({c.out, masked}, logical(c.winner, c.storage, g.channels), {c.in, expected_dy});
        for (std::size_t i = 0; i < masked.size(); ++i) expected_db[i % b.size()] += masked[i];
        CHECK(dy.values() == expected_dy);
        CHECK(p.pads_are_zero());
        CHECK(dy.pads_are_zero());
        CHECK(distance(db, expected_db) < 1e-5);  // the naive sum above is float32
        CHECK(scratch.back() == 99);
      }
}

// A position of the input beyond 2^31 would come out as another one.
TEST_CASE("cuda kernels: a pooling whose input has more positions than 32 bits count is refused") {
  const PoolGeometry g{PoolKind::max, 8, {512, 512, 512}, {2, 2, 2}, {2, 2, 2}};
  const Work work{nullptr, float_storage};
  CHECK_THROWS_AS(cuda::pool_forward(work, g, 16, nullptr, nullptr, nullptr), FaultError);
}

}  // namespace mrmf::test
