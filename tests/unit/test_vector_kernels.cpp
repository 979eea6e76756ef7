// What the kernels of an instruction set do by their interface alone: values that are written past the caches are the
// same as others. Operations ask for that only where tensors are larger than a test's.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/arena.hpp"
#include "kernels/cpu/direct_passes.hpp"
#include "kernels/cpu/instruction_set.hpp"
#include "kernels/cpu/vector_kernels.hpp"
#include "kernels/random.hpp"

namespace mrmf::test {
namespace {

Arena random_arena(Index count, std::uint64_t seed) {
  Arena arena = cpu::make_arena(count);
  Rng rng(seed);
  for (float& value : arena.span()) value = static_cast<float>(rng.uniform() - 0.5);
  return arena;
}

bool has(cpu::InstructionSet set) { return set <= cpu::instruction_set(); }

// together: planes that the kernels take as one.
std::vector<float> winograd_plane(const cpu::direct::Kernels& kernels, bool stream, long together = 1) {
  ConvGeometry conv{4, 32, {3, 9, 14}, {3, 3, 3}};
  conv.pad_before = conv.pad_after = {1, 1, 1};
  if (together > 1) conv.in[0] = conv.kernel[0] = 1, conv.pad_before[0] = conv.pad_after[0] = 0;
  const cpu::PassShape shape = cpu::forward_of(conv);
  cpu::direct::Geometry g = cpu::Sweep(kernels, shape, false).parts[0].g;
  g.stream = stream;
  g.together = g.there = together;
  const cpu::direct::Sizes sizes = kernels.sizes(g);
  const Arena x = random_arena(together * g.rows * g.width * g.in_channels, 1),
              w = random_arena(g.depth * g.out_channels, 2), b = random_arena(32, 3);
  Arena plane = cpu::make_arena(sizes.plane), packed = cpu::make_arena(sizes.packed),
        y = cpu::make_arena(together * g.rows * g.width * g.out_channels);
  for (long first = 0; first < g.padded_out; first += kernels.lanes)
    kernels.pack(g, {w.span().data(), g.depth, shape.lattices[0].taps.data(), 1}, first, packed.span().data());
  kernels.copy(g, x.span().data(), nullptr, plane.span().data());
  float* const planes[3] = {plane.span().data(), plane.span().data(), nullptr};
  kernels.forward(g, planes, {packed.span().data(), b.span().data()}, y.span().data());
  return {y.span().begin(), y.span().end()};
}

std::vector<float> norm_gradient(const cpu::norm_loops::Kernels& kernels, bool stream) {
  constexpr long channels = 32, positions = 7;
  const cpu::norm_loops::Line line{positions, channels, 2, 3, 0.5F, 0.1F, channels, stream};
  const Arena x = random_arena(positions * channels, 4), dy = random_arena(3 * channels, 5),
              of_channels = random_arena(7 * channels, 6);
  Arena dx = cpu::make_arena(positions * channels);
  const float* c = of_channels.span().data();
  kernels.data(line, {c, c + channels, c + 2 * channels},
               {c + 3 * channels, c + 4 * channels, c + 5 * channels, c + 6 * channels}, x.span().data(),
               dy.span().data(), dx.span().data());
  return {dx.span().begin(), dx.span().end()};
}

std::vector<float> normalised(const cpu::norm_loops::Kernels& kernels, bool stream) {
  constexpr long channels = 32, positions = 7;
  const cpu::norm_loops::Line line{positions, channels, 1, positions, 1.0F, 0.1F, channels, stream};
  const Arena x = random_arena(positions * channels, 4), of_channels = random_arena(3 * channels, 6);
  Arena y = cpu::make_arena(positions * channels);
  const float *c = of_channels.span().data(), *lines = x.span().data();
  kernels.forward(line, {c, c + channels, c + 2 * channels}, &lines, 1, y.span().data());
  return {y.span().begin(), y.span().end()};
}

cpu::direct::Geometry small_plane() {
  cpu::direct::Geometry g{};
  g.kernel[0] = g.together = g.there = 1;
  g.rows = g.width = 8;
  return g;
}

}  // namespace

TEST_CASE("values: what kernels write past the caches has the same bits") {
  using cpu::InstructionSet;
  for (const auto& [set, kernels] :
       {std::pair{InstructionSet::generic, &cpu::direct::generic_kernels().winograd},
        std::pair{InstructionSet::generic, &cpu::direct::generic_kernels().winograd_planes},
        std::pair{InstructionSet::generic, &cpu::direct::generic_kernels().winograd_squares},
        std::pair{InstructionSet::avx2, &cpu::direct::avx2_kernels().winograd},
        std::pair{InstructionSet::avx2, &cpu::direct::avx2_kernels().winograd_planes},
        std::pair{InstructionSet::avx2, &cpu::direct::avx2_kernels().winograd_squares},
        std::pair{InstructionSet::avx512, &cpu::direct::avx512_kernels().winograd},
        std::pair{InstructionSet::avx512, &cpu::direct::avx512_kernels().winograd_planes},
        std::pair{InstructionSet::avx512, &cpu::direct::avx512_kernels().winograd_squares}})
    if (has(set)) {
      CHECK(winograd_plane(*kernels, true) == winograd_plane(*kernels, false));
      if (kernels->together(small_plane()) > 1)
        CHECK(winograd_plane(*kernels, true, 3) == winograd_plane(*kernels, false, 3));
    }
  for (const auto& [set, kernels] : {std::pair{InstructionSet::generic, cpu::norm_loops::generic_kernels()},
                                     std::pair{InstructionSet::avx2, cpu::norm_loops::avx2_kernels()},
                                     std::pair{InstructionSet::avx512, cpu::norm_loops::avx512_kernels()}})
    if (has(set)) {
      CHECK(norm_gradient(*kernels, true) == norm_gradient(*kernels, false));
      CHECK(normalised(*kernels, true) == normalised(*kernels, false));
    }
  CHECK_FALSE(cpu::exceeds_caches(random_arena(64, 7).span()));
}

}  // namespace mrmf::test
