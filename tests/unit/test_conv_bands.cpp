// Convolutions of planes in bands of rows, of small planes taken together, and both gradients in one loop
// (kernels/cpu/direct_conv.cpp): the same bits as of whole planes one by one.
#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <limits>

#include "kernels/cpu/convolutions.hpp"
#include "kernels/random.hpp"
#include "tests/unit/support/backends.hpp"

namespace mrmf::test {
namespace {

using cpu::DirectKernels;
using Algorithm = DirectKernels::Algorithm;

ConvGeometry geometry(const Extent& in, const Extent& kernel, const Extent& before, const Extent& after,
                      Index channels = 16, const Extent& stride = {1, 1, 1}) {
  ConvGeometry c{channels, channels};
  c.in = in, c.kernel = kernel, c.pad_before = before, c.pad_after = after, c.stride = stride;
  return c;
}

std::vector<float> made_up(Index count, std::uint64_t key) {
  Rng rng(key);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = rng.uniform() - 0.5F;
  return values;
}

struct Results {
  std::vector<float> y, dx, dw, db;
};
// `room`: of DirectKernels. Twice, so that what a first call leaves in the rings meets a second one.
Results results_of(DirectKernels kernels, Index room, const ConvGeometry& c) {
  constexpr Index rows = 3;
  kernels.room = room;
  const auto op = cpu::make_direct_conv(kernels, c, own_workspace());
  REQUIRE(op != nullptr);
  op->prepare(rows);
  const Shape in{rows, c.in, c.in_channels, 3}, out{rows, c.out(), c.out_channels, 3};
  const auto x = made_up(in.count(), 1), dy = made_up(out.count(), 2), b = made_up(c.out_channels, 4),
             w = made_up(c.out_channels * product(c.kernel) * c.in_channels, 3);
  Results r{std::vector<float>(dy.size()), std::vector<float>(x.size()), std::vector<float>(w.size()),
            std::vector<float>(b.size())};
  for (int i = 0; i < 2; ++i) {
    std::ranges::fill(r.dx, std::numeric_limits<float>::quiet_NaN());  // which equals nothing
    op->forward({in, x}, w, b, {out, r.y});
    op->backward_data({out, dy}, w, {in, r.dx});
    op->backward_weights({in, x}, {out, dy}, r.dw, r.db);
  }
  return r;
}

}  // namespace

TEST_CASE("conv bands: planes in bands of rows have the bits of whole planes, whatever the padding") {
  const ConvGeometry cases[] = {
      geometry({3, 40, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}),
      geometry({3, 40, 8}, {3, 3, 1}, {1, 1, 0}, {1, 1, 0}),  // read where they are
      geometry({1, 49, 9}, {1, 3, 3}, {0, 2, 1}, {0, 0, 2}),
      geometry({2, 70, 12}, {1, 13, 3}, {0, 0, 0}, {0, 0, 0}),  // the data gradient has twelve rows of padding
      geometry({1, 66, 10}, {1, 9, 3}, {0, 8, 1}, {0, 3, 1}),
      geometry({1, 64, 20}, {1, 13, 13}, {0, 6, 6}, {0, 6, 6}),
      geometry({5, 81, 16}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, 16, {2, 2, 2}),
      geometry({1, 63, 16}, {1, 19, 1}, {0, 1, 0}, {0, 1, 0}, 16, {1, 2, 1}),  // padding of eight rows behind dy
      geometry({4, 40, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),
      geometry({1, 99, 25}, {1, 2, 1}, {0, 0, 0}, {0, 0, 0}, 16, {1, 3, 2}),  // rows and columns that meet no tap
  };
  constexpr Index least = 1, whole = Index{1} << 40;
  for (const ConvGeometry& c : cases)
    for (const Algorithm algorithm :
         {Algorithm::plain, Algorithm::winograd, Algorithm::winograd_planes, Algorithm::winograd_squares,
          Algorithm::amx, Algorithm::amx_winograd, Algorithm::amx_bf16}) {
      const bool amx = algorithm >= Algorithm::amx;
      if (amx && !cpu::has_amx()) continue;  // unit_sixteen_lanes emulates it
      const bool strides = c.stride != Extent{1, 1, 1};
      if (strides && algorithm != Algorithm::plain && algorithm != Algorithm::amx && algorithm != Algorithm::amx_bf16)
        continue;
      if (algorithm == Algorithm::amx_winograd && c.kernel[1] != 3) continue;
      if (!amx && algorithm != Algorithm::plain && c.kernel[2] != 3) continue;
      const bool planes = algorithm == Algorithm::winograd_planes || algorithm == Algorithm::winograd_squares;
      if (planes && c.kernel[1] != 3) continue;
      const DirectKernels kernels{algorithm, cpu::instruction_set()};
      INFO(c.in[1], " ", c.kernel[1], " ", c.stride[1], " by ", static_cast<int>(algorithm));
      const Results bands = results_of(kernels, least, c), all = results_of(kernels, whole, c);
      CHECK(bands.y == all.y);
      CHECK(bands.dx == all.dx);
      CHECK(relative_distance(bands.dw, all.dw) < 5e-6);  // summed in another order
      CHECK(relative_distance(bands.db, all.db) < 5e-6);
    }
}

TEST_CASE("conv bands: small planes taken together have the bits of one at a time, and one gradient of the weights") {
  for (const ConvGeometry& c :
       {geometry({1, 8, 8}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}), geometry({1, 9, 11}, {1, 3, 3}, {0, 0, 2}, {0, 1, 0}),
        geometry({3, 8, 9}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}), geometry({3, 8, 8}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}),
        geometry({4, 11, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}),      // a plane of padding before them
        geometry({1, 9, 8}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}, 32)})  // runs of whole steps of AMX's
    for (const Algorithm algorithm :
         {Algorithm::winograd_planes, Algorithm::winograd_squares, Algorithm::amx_winograd}) {
      if (algorithm == Algorithm::amx_winograd && !cpu::has_amx()) continue;  // unit_sixteen_lanes emulates it
      constexpr Index rows = 17;
      const auto op = cpu::make_direct_conv({algorithm, cpu::instruction_set()}, c, own_workspace());
      const auto plain = cpu::make_direct_conv({Algorithm::plain, cpu::instruction_set()}, c, own_workspace());
      REQUIRE(op != nullptr);
      const Shape in{rows, c.in, c.in_channels, 3}, out{rows, c.out(), c.out_channels, 3};
      auto x = made_up(in.count(), 1), dy = made_up(out.count(), 2);
      const auto b = made_up(c.out_channels, 4), w = made_up(c.out_channels * product(c.kernel) * c.in_channels, 3);
      std::vector<float> y(dy.size()), one_y(dy.size()), dx(x.size()), one_dx(x.size());
      for (const Index n : {rows, Index{4}, rows}) {  // what a call of other rows leaves in the copies meets the next
        const auto xs = std::span(x).first(static_cast<std::size_t>(n * in.per_sample()));
        const auto dys = std::span(dy).first(static_cast<std::size_t>(n * out.per_sample()));
        op->forward({in.with_rows(n), xs}, w, b, {out.with_rows(n), std::span(y).first(dys.size())});
        op->backward_data({out.with_rows(n), dys}, w, {in.with_rows(n), std::span(dx).first(xs.size())});
        std::vector<float> dw(w.size()), db(b.size()), plain_dw(w.size()), plain_db(b.size());
        op->backward_weights({in.with_rows(n), xs}, {out.with_rows(n), dys}, dw, db);
        plain->backward_weights({in.with_rows(n), xs}, {out.with_rows(n), dys}, plain_dw, plain_db);
        std::vector<float> plain_dx(xs.size());
        plain->backward_data({out.with_rows(n), dys}, w, {in.with_rows(n), plain_dx});
        CHECK(relative_distance(std::span(dx).first(xs.size()), plain_dx) < 1e-5);
        CHECK(relative_distance(dw, plain_dw) < 1e-5);
        CHECK(relative_distance(db, plain_db) < 1e-5);
      }
      for (Index i = 0; i < rows; ++i) {
        const auto of = [i](std::vector<float>& all, const Shape& shape) {
          return Tensor{shape.with_rows(1), std::span(all).subspan(static_cast<std::size_t>(i * shape.per_sample()),
                                                                   static_cast<std::size_t>(shape.per_sample()))};
        };
        op->forward(of(x, in), w, b, of(one_y, out));
        op->backward_data(of(dy, out), w, of(one_dx, in));
      }
      CHECK(y == one_y);
      CHECK(dx == one_dx);
    }
}

const Algorithm kOurs[] = {Algorithm::plain, Algorithm::winograd, Algorithm::winograd_planes,
                           Algorithm::winograd_squares};

TEST_CASE("conv bands: both gradients in one loop have the bits of one after the other") {
  constexpr Index rows = 21;
  struct Case {
    ConvGeometry conv;
    bool in_one_loop;
  };
  const Case cases[] = {
      {geometry({1, 19, 14}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}), true},
      {geometry({1, 8, 8}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}), true},  // several planes together
      {geometry({4, 11, 9}, {1, 3, 3}, {0, 0, 1}, {0, 1, 0}), true},
      {geometry({1, 22, 20}, {1, 3, 3}, {0, 1, 1}, {0, 1, 1}, 16, {1, 2, 2}), true},
      {geometry({1, 21, 20}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, 16, {1, 2, 2}), false},  // positions that meet no tap
      {geometry({4, 11, 9}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}), false},                  // a plane of padding
      {geometry({4, 11, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}), false},
      {geometry({4, 11, 9}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}), false},
  };
  for (const auto& [c, in_one_loop] : cases)
    for (const Algorithm of_weights : kOurs)
      for (const Algorithm of_data : kOurs) {
        const cpu::SharedWorkspace memory = own_workspace();
        constexpr Index room = Index{1} << 20;  // for all of them, whatever this processor's caches
        const auto weights = cpu::make_direct_conv({of_weights, cpu::instruction_set(), room}, c, memory);
        const auto data = cpu::make_direct_conv({of_data, cpu::instruction_set(), room}, c, memory);
        if (weights == nullptr || data == nullptr) continue;  // strides are not Winograd's
        INFO("in planes: ", c.in[0], ", width: ", c.in[2], ", kernels: ", static_cast<int>(of_weights), " ",
             static_cast<int>(of_data));
        const Shape in{rows, c.in, c.in_channels, 3}, out{rows, c.out(), c.out_channels, 3};
        const auto x = made_up(in.count(), 1), dy = made_up(out.count(), 2), w = made_up(c.weights(), 3);
        Results want{{},
                     std::vector<float>(x.size()),
                     std::vector<float>(w.size()),
                     std::vector<float>(static_cast<std::size_t>(c.out_channels))};
        Results got = want;
        std::vector<float> place(dy.size());
        const Index line = c.out()[2] * c.out_channels;
        const cpu::MadeGradient made{out,
                                     [&](Index first, Index last, float* to) {
                                       std::copy_n(dy.data() + first * line, (last - first) * line, to);
                                     },
                                     place.data(), true};
        weights->prepare_making(rows, data.get());
        for (int i = 0; i < 2; ++i) {  // what the first call leaves in the rings meets the second one
          CHECK(weights->backward_making({{in, x}, w, {in, got.dx}, got.dw, got.db}, made, *data) == in_one_loop);
          data->backward_data({out, dy}, w, {in, want.dx});
          weights->backward_weights({in, x}, {out, dy}, want.dw, want.db);
          if (!in_one_loop) continue;
          CHECK(got.dx == want.dx);
          CHECK(got.dw == want.dw);
          CHECK(got.db == want.db);
        }
      }
}

}  // namespace mrmf::test
