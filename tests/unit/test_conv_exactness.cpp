// How exact convolutions are: Winograd's, and those on AMX (kernels/cpu/direct_kernels_amx.cpp), of floats in three
// parts as exact as plain products in float32, and of rounded factors exact where nothing is rounded. Without AMX these
// do not serve; unit_sixteen_lanes emulates it.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/random.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

using cpu::DirectKernels;
using Algorithm = DirectKernels::Algorithm;

struct Case {
  Extent in;
  Index in_channels, out_channels;
  Extent kernel, before, after;
};

// Many and few in channels. Rows of whole tiles, of whole halves of them and of neither; one plane and several; runs of
// input that are no whole tiles; even and odd numbers of vectors of out channels; no padding, all of it, and more on
// one side.
const Case kCases[] = {
    {{1, 9, 32}, 16, 16, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}},  {{1, 8, 8}, 48, 32, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}},
    {{3, 7, 16}, 32, 48, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},  {{2, 9, 13}, 16, 32, {2, 2, 3}, {1, 0, 2}, {0, 1, 0}},
    {{1, 11, 13}, 32, 16, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}, {{1, 1, 150}, 16, 64, {1, 1, 5}, {0, 0, 4}, {0, 0, 4}},
    {{1, 12, 34}, 16, 16, {1, 3, 3}, {0, 0, 0}, {0, 0, 0}}, {{3, 9, 16}, 4, 16, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}},
    {{1, 17, 20}, 4, 32, {1, 3, 3}, {0, 0, 2}, {0, 2, 1}},  {{2, 10, 48}, 3, 16, {2, 3, 2}, {1, 2, 1}, {0, 0, 0}},
    {{1, 14, 16}, 1, 16, {1, 3, 5}, {0, 1, 2}, {0, 1, 2}},  {{1, 12, 6}, 8, 48, {1, 3, 1}, {0, 2, 0}, {0, 2, 0}},
};

ConvGeometry geometry_of(const Case& c) {
  ConvGeometry g{c.in_channels, c.out_channels};
  g.in = c.in, g.kernel = c.kernel, g.pad_before = c.before, g.pad_after = c.after;
  return g;
}

struct Passes {
  std::vector<float> y, dx, dw, db;
};

// Twice: what a first step leaves in the copies of planes meets a second one.
Passes passes_of(WeightedOp& op, const ConvGeometry& g, const Passes& from, std::span<const float> b) {
  constexpr Index rows = 3;
  const Shape in{rows, g.in, g.in_channels, 3}, out{rows, g.out(), g.out_channels, 3};
  Passes to{std::vector<float>(from.y.size(), NAN), std::vector<float>(from.dx.size(), NAN),
            std::vector<float>(from.dw.size(), NAN), std::vector<float>(b.size(), NAN)};
  op.prepare(rows);
  for (int step = 0; step < 2; ++step) {
    op.forward({in, from.dx}, from.dw, b, {out, to.y});
    op.backward_data({out, from.y}, from.dw, {in, to.dx});
    op.backward_weights({in, from.dx}, {out, from.y}, to.dw, to.db);
  }
  return to;
}

// x, dy and w, in the places of their gradients and of y. bits: of each number; 24 are all.
Passes inputs_of(const ConvGeometry& g, int bits) {
  constexpr Index rows = 3;
  Rng rng(7);
  const auto made_up = [&](Index count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = static_cast<float>(rng.uniform() - 0.5);
      if (bits < 24) value = std::ldexp(std::round(std::ldexp(value, bits)), -bits);
    }
    return values;
  };
  return {made_up(rows * product(g.out()) * g.out_channels),
          made_up(rows * product(g.in) * g.in_channels),
          made_up(g.weights()),
          {}};
}

bool serves(Algorithm algorithm, const ConvGeometry& g) {
  if (algorithm == Algorithm::amx_winograd) return cpu::has_amx() && g.kernel[1] == 3;
  if (algorithm >= Algorithm::amx) return cpu::has_amx();
  const Extent out = g.out();
  return g.kernel[2] == 3 && (algorithm == Algorithm::winograd || g.kernel[1] == 3) && std::min(out[1], g.in[1]) >= 6;
}

// Against the reference, beside plain products: no more than so many times as far from it. A part of 8 bits less, or a
// product that is missing, is off by 2^-16.
void check_exactness(Algorithm algorithm, double times) {
  const auto reference = make_reference_backend();
  for (const Case& c : kCases) {
    const ConvGeometry g = geometry_of(c);
    const Passes from = inputs_of(g, 24);
    const std::vector<float> b(static_cast<std::size_t>(g.out_channels), 0.25F);
    const auto op = cpu::make_direct_conv({algorithm, cpu::instruction_set()}, g, own_workspace());
    INFO(c.in[0] << "x" << c.in[1] << "x" << c.in[2] << ", " << g.in_channels << " to " << g.out_channels);
    REQUIRE((op != nullptr) == serves(algorithm, g));
    if (op == nullptr) continue;
    const Passes want = passes_of(*reference->conv(g, 3), g, from, b), got = passes_of(*op, g, from, b);
    const auto plain_op = cpu::make_direct_conv({Algorithm::plain, cpu::instruction_set()}, g, own_workspace());
    const Passes plain = passes_of(*plain_op, g, from, b);
    constexpr double least = 1e-7;
    CHECK(relative_distance(got.y, want.y) < times * relative_distance(plain.y, want.y) + least);
    CHECK(relative_distance(got.dx, want.dx) < times * relative_distance(plain.dx, want.dx) + least);
    CHECK(relative_distance(got.dw, want.dw) < times * relative_distance(plain.dw, want.dw) + least);
    CHECK(relative_distance(got.db, want.db) < times * relative_distance(plain.db, want.db) + least);
  }
}

}  // namespace

TEST_CASE("exactness: Winograd's convolutions round a few times as much as plain sums") {
  check_exactness(Algorithm::winograd, 4);
  check_exactness(Algorithm::winograd_planes, 4);
  check_exactness(Algorithm::winograd_squares, 10);
}

TEST_CASE("amx: convolutions of floats in three parts are as exact as of floats") {
  check_exactness(Algorithm::amx, 4);
}

TEST_CASE("amx: Winograd's convolutions of floats in three parts round a few times as much") {
  check_exactness(Algorithm::amx_winograd, 8);
}

TEST_CASE("amx: what is no number stays none on AMX, whatever its bits") {
  const ConvGeometry g = geometry_of(kCases[0]);
  const std::vector<float> b(static_cast<std::size_t>(g.out_channels), 0.25F);
  for (const Algorithm algorithm : {Algorithm::amx, Algorithm::amx_winograd, Algorithm::amx_bf16})
    for (const std::uint32_t bits : {0x7fc00000U, 0x7fffffffU, 0xffffffffU}) {
      const auto op = cpu::make_direct_conv({algorithm, cpu::instruction_set()}, g, own_workspace());
      REQUIRE((op != nullptr) == cpu::has_amx());
      if (op == nullptr) continue;
      Passes from = inputs_of(g, 24);
      from.dx[0] = std::bit_cast<float>(bits);  // x at the first position
      const Passes got = passes_of(*op, g, from, b);
      CHECK(std::isnan(got.y[0]));
      CHECK(std::isnan(got.dw[4 * 16]));  // by the tap in the middle
      CHECK_FALSE(std::isnan(got.y.back()));
    }
}

TEST_CASE("amx: convolutions of rounded factors are exact on numbers of 8 bits") {
  for (const Case& c : kCases) {
    const ConvGeometry g = geometry_of(c);
    const Passes from = inputs_of(g, 5);
    const std::vector<float> b(static_cast<std::size_t>(g.out_channels), 0.25F);
    const auto op = cpu::make_direct_conv({Algorithm::amx_bf16, cpu::instruction_set()}, g, own_workspace());
    REQUIRE((op != nullptr) == cpu::has_amx());
    if (op == nullptr) continue;
    const auto plain_op = cpu::make_direct_conv({Algorithm::plain, cpu::instruction_set()}, g, own_workspace());
    const Passes want = passes_of(*plain_op, g, from, b), got = passes_of(*op, g, from, b);
    INFO(c.in[0] << "x" << c.in[1] << "x" << c.in[2] << ", " << g.in_channels << " to " << g.out_channels);
    CHECK(got.y == want.y);
    CHECK(got.dx == want.dx);
    CHECK(got.dw == want.dw);
    CHECK(got.db == want.db);
  }
}

}  // namespace mrmf::test
