// Cubes that ranks share: the same bits as whole ones.
#include <doctest/doctest.h>

#include <numeric>
#include <optional>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "mpi/grid_exchange.hpp"
#include "src/simulators/cosmology/universe_by_particle_mesh.hpp"

using namespace mrmf;
using namespace mrmf::cosmology;

namespace {

/// A group of as many of the world's ranks as can share cubes, a power of two; the others are left alone. Collective.
std::optional<Comm> sharing_group(const Comm& world) {
  int most = 1;
  while (2 * most <= world.size()) most *= 2;
  const bool inside = world.rank() < most;
  std::optional<Comm> group = world.split(inside ? 0 : 1);
  if (!inside) group.reset();
  return group;
}

CosmologySimulation small(Displacement method, int size, int mesh) {
  CosmologySimulation s;
  s.folder = "unused";
  s.size = size;
  s.box = 128;  // particles of 4 or 2 Mpc/h: many leave their slab
  s.method = method;
  s.mesh = mesh;
  s.steps = 4;
  return s;
}

std::vector<std::uint16_t> counts_of(const CosmologySimulation& settings, Comm* group) {
  const UniverseMaker maker(settings, group);
  UniverseMaker::Memory memory(maker);
  std::vector<std::uint16_t> counts(maker.slab().points() * kRedshifts);
  maker.make(3, memory, counts);
  return counts;
}

}  // namespace

TEST_CASE("slabs: an exchange brings every rank what is for it, and answers back") {
  Comm world = Comm::world();
  std::vector<int> counts;
  std::vector<float> values;
  for (int to = 0; to < world.size(); ++to) {  // rank r sends r + to numbers to rank `to`
    counts.push_back(world.rank() + to);
    for (int i = 0; i < counts.back(); ++i) values.push_back(static_cast<float>(100 * world.rank() + 10 * to + i));
  }
  const AllToAll way(world, counts);
  CHECK(way.sent() == values.size());
  std::vector<float> arrived(way.received()), expected, back(way.sent());
  for (int from = 0; from < world.size(); ++from)
    for (int i = 0; i < from + world.rank(); ++i)
      expected.push_back(static_cast<float>(100 * from + 10 * world.rank() + i));
  way.send(values, arrived);
  CHECK(arrived == expected);
  for (float& value : arrived) value += 0.5F;
  way.answer(arrived, back);
  for (std::size_t i = 0; i < back.size(); ++i) CHECK(back[i] == values[i] + 0.5F);
}

TEST_CASE("slabs: a transposition moves every number to its place and back") {
  Comm world = Comm::world();
  const int n = 2 * world.size(), depth = 3, planes = n / world.size(), first = planes * world.rank();
  const SlabTranspose transpose(world, n, depth);
  RealGrid slab(static_cast<std::size_t>(planes * n * depth));
  const auto number = [&](int a, int b, int d) { return static_cast<float>((a * n + b) * depth + d); };
  const auto check = [&](bool turned) {
    std::size_t i = 0;
    for (int a = first; a < first + planes; ++a)
      for (int b = 0; b < n; ++b)
        for (int d = 0; d < depth; ++d) CHECK(slab[i++] == (turned ? number(b, a, d) : number(a, b, d)));
  };
  std::iota(slab.begin(), slab.end(), number(first, 0, 0));
  check(false);
  transpose.swap(slab);
  check(true);
  transpose.swap(slab);
  check(false);
}

TEST_CASE("slabs: ranks do not wait for ever for one that does not transpose") {
  Comm world = Comm::world();
  if (world.size() == 1) return;
  Comm late = world.duplicate();
  const SlabTranspose transpose(late, world.size(), 2);
  late.limit(0.2);
  RealGrid slab(static_cast<std::size_t>(2 * world.size()));
  if (world.rank() != 0)
    CHECK_THROWS_WITH_AS(transpose.swap(slab), doctest::Contains("has not ended within 0.2 s"), FaultError);
  world.barrier();  // all others have given up
  if (world.rank() == 0) {
    late.limit(0);
    late.barrier();  // what they gave up
  }
  world.barrier();
}

TEST_CASE("slabs: a transform's bits are those of the whole cube's") {
  std::optional<Comm> group = sharing_group(Comm::world());
  if (!group) return;
  for (const int n : {8, 24, 32}) {
    CAPTURE(n);
    const Fft whole(n), shared(n, &*group);
    RealGrid field(whole.slab().points());
    for (std::size_t i = 0; i < field.size(); ++i) field[i] = static_cast<float>(mix(5, i) >> 40) * 0x1.0p-24F - 0.5F;
    const std::span<const float> all = field;
    const std::size_t points = shared.slab().points(), modes = shared.slab().modes();
    const auto rank = static_cast<std::size_t>(group->rank());
    RealGrid part(all.begin() + static_cast<std::ptrdiff_t>(rank * points),
                  all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * points));
    ModeGrid expected(whole.slab().modes()), found(modes);
    whole.to_modes(field, expected);
    shared.to_modes(part, found);
    CHECK(std::equal(found.begin(), found.end(), expected.begin() + static_cast<std::ptrdiff_t>(rank * modes)));
    const RealGrid before = part;
    whole.to_field(expected, field);
    shared.to_field(found, part);
    CHECK(std::equal(part.begin(), part.end(), field.begin() + static_cast<std::ptrdiff_t>(rank * points)));
    const auto cube = static_cast<float>(shared.slab().cube());
    for (std::size_t i = 0; i < points; ++i)  // there and back: a few roundings of sums of n^3 terms of order 0.3
      CHECK(std::abs(part[i] / cube - before[i]) < 1e-6F);
  }
}

TEST_CASE("slabs: ranks that share a cube count what one rank counts") {
  std::optional<Comm> group = sharing_group(Comm::world());
  if (!group) return;
  struct Case {
    Displacement method;
    int size, mesh;
  };
  for (const Case& c : {Case{Displacement::lpt, 16, 1}, Case{Displacement::lpt, 32, 1}, Case{Displacement::cola, 16, 3},
                        Case{Displacement::cola, 32, 1}}) {
    CAPTURE(to_string(c.method));
    CAPTURE(c.size);
    CAPTURE(c.mesh);
    const CosmologySimulation settings = small(c.method, c.size, c.mesh);
    const std::vector<std::uint16_t> whole = counts_of(settings, nullptr), part = counts_of(settings, &*group);
    REQUIRE(part.size() * static_cast<std::size_t>(group->size()) == whole.size());
    const auto begin = whole.begin() + group->rank() * std::ssize(part);
    CHECK(std::equal(part.begin(), part.end(), begin));
    std::vector<std::int64_t> particles(kRedshifts);
    for (std::size_t i = 0; i < part.size(); ++i) particles[i % kRedshifts] += part[i];
    group->sum(std::span(particles));
    for (const std::int64_t sum : particles) CHECK(sum == 8 * c.size * c.size * c.size);
  }
}

TEST_CASE("slabs: too much mass at a mesh point is an error on every rank") {
  std::optional<Comm> group = sharing_group(Comm::world());
  if (!group) return;
  constexpr int n = 64;
  const Fft fft(n, &*group);
  ParticleMesh mesh(fft, n, &*group);
  Vectors position;
  for (RealGrid& axis : position) axis.assign(fft.slab().points(), kLatticeOffset + 0.5F);  // all at one point
  CHECK_THROWS_AS(mesh.update(position), FaultError);
}

TEST_CASE("slabs: what two ranks tell each other is counted in ints") {
  CHECK(SlabTranspose::fits(1024, 1026, 2));
  CHECK(SlabTranspose::fits(2048, 2050, 1));  // nothing is told
  CHECK_FALSE(SlabTranspose::fits(2048, 2050, 2));
  CHECK(SlabTranspose::fits(2048, 2047, 2));
  CHECK_FALSE(SlabTranspose::fits(4096, 4098, 4));
  CHECK(SlabTranspose::fits(4096, 4098, 8));
}

TEST_CASE("slabs: an exchange wants both lengths as told") {
  Comm world = Comm::world();
  const AllToAll way(world, std::vector<int>(static_cast<std::size_t>(world.size()), 1));
  std::vector<float> sent(way.sent() + 1), arrived(way.received());
  arrived.resize(arrived.size() - 1);  // the sum is right
  CHECK_THROWS_AS(way.send(sent, arrived), FaultError);
  CHECK_THROWS_AS(way.answer(arrived, sent), FaultError);
}
