// A convolution slab by slab: what is computed before the halo is there, and that both halves together are the
// convolution.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "layers/halo_exchange.hpp"
#include "tests/unit/support/backends.hpp"
#include "tests/unit/support/small_model.hpp"

using namespace mrmf;
using namespace mrmf::test;

namespace {

struct SlabCase {
  Index positions, kernel, stride, dilation, before, after;
  Index first, end;  ///< of what is there
  Index inner;       ///< positions of the output that see no more; 0: no slabs
};

constexpr SlabCase kSlabCases[] = {
    {9, 3, 1, 1, 1, 0, 0, 8, 7},     // the first block: padding, halo behind
    {9, 3, 1, 1, 0, 1, 1, 9, 7},     // the last one
    {10, 3, 1, 1, 0, 0, 1, 9, 6},    // one between two others
    {12, 2, 1, 1, 0, 0, 0, 11, 10},  // a halo on one side alone
    {11, 3, 2, 1, 0, 0, 1, 10, 3},   // with a stride: windows begin at 2, 4 and 6...
    {11, 4, 3, 1, 0, 0, 2, 9, 1},    // ...and at 3
    {13, 3, 1, 2, 0, 0, 2, 11, 5},   // dilated
    {3, 3, 1, 1, 0, 0, 1, 2, 0},     // every window sees the halo
    {9, 3, 1, 1, 1, 1, 4, 4, 0},     // nothing is there
};

}  // namespace

TEST_CASE("conv slabs: the first half sees nothing of the halo, and both are the convolution") {
  for (const SlabCase& c : kSlabCases)
    for (const int axes : {1, 3})
      for (const bool reference : {true, false}) {
        CAPTURE(c.positions);
        CAPTURE(c.kernel);
        CAPTURE(c.stride);
        CAPTURE(axes);
        const auto backend = reference ? make_reference_backend() : make_cpu_backend(1);
        const std::size_t a = axes == 3 ? 0 : 2;
        ConvGeometry g{.in_channels = 5, .out_channels = 16};
        if (axes == 3) g.in = {1, 9, 11}, g.kernel = {1, 3, 3}, g.pad_before = g.pad_after = {0, 1, 1};
        g.in.at(a) = c.positions, g.kernel.at(a) = c.kernel, g.stride.at(a) = c.stride, g.dilation.at(a) = c.dilation;
        g.pad_before.at(a) = c.before, g.pad_after.at(a) = c.after;
        const Shape in{.n = 1, .spatial = g.in, .channels = g.in_channels, .axes = axes};
        Shape out = in;
        out.spatial = g.out(), out.channels = g.out_channels;
        Box here{.count = g.in};
        here.first.at(a) = c.first, here.count.at(a) = c.end - c.first;
        const auto slabs = ConvSlabs::make(*backend, in, g, here);
        CHECK((slabs != nullptr) == (c.inner > 0));
        if (!slabs) continue;

        std::vector<float> x = random_values(in.count(), 1);
        const std::vector<float> whole = x, w = random_values(g.weights(), 2), b = random_values(g.out_channels, 3);
        std::vector<float> wanted(static_cast<std::size_t>(out.count())), y(wanted.size(), NAN);
        const auto op = backend->conv(g, 1);
        op->prepare(1);
        op->forward({in, whole}, w, b, {out, wanted});
        slabs->prepare();
        const auto plane = static_cast<std::size_t>(in.count() / c.positions);
        std::fill(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(plane) * c.first, NAN);
        std::fill(x.begin() + static_cast<std::ptrdiff_t>(plane) * c.end, x.end(), NAN);
        slabs->begin({in, x}, w, b, {out, y});
        const Index there = std::ranges::count_if(y, [](float value) { return std::isfinite(value); });
        CHECK(there == c.inner * out.count() / out.spatial.at(a));
        slabs->end({in, whole}, w, b, {out, y});
        double most = 0;
        for (std::size_t i = 0; i < y.size(); ++i) most = std::max(most, std::abs(double{y[i]} - wanted[i]));
        CHECK(most < 1e-4);
        CHECK(std::ranges::all_of(y, [](float value) { return std::isfinite(value); }));
      }
}

TEST_CASE("conv slabs: none for several rows, nor where the halo is along another axis") {
  const auto backend = make_reference_backend();
  ConvGeometry g{.in_channels = 2, .out_channels = 3, .in = {6, 6, 6}, .kernel = {3, 3, 3}};
  Shape in{.n = 1, .spatial = g.in, .channels = 2, .axes = 3};
  CHECK(ConvSlabs::make(*backend, in, g, {{1, 0, 0}, {5, 6, 6}}) != nullptr);
  CHECK(ConvSlabs::make(*backend, in, g, {{0, 1, 0}, {6, 5, 6}}) == nullptr);
  CHECK(ConvSlabs::make(*backend, in, g, {{1, 0, 0}, {5, 5, 6}}) == nullptr);
  in.n = 2;
  CHECK(ConvSlabs::make(*backend, in, g, {{1, 0, 0}, {5, 6, 6}}) == nullptr);
}
