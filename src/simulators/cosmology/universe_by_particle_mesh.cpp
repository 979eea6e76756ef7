// One universe: particles' gravity by a mesh, their exchange between ranks, their evolution, and the counts in voxels.
#include "src/simulators/cosmology/universe_by_particle_mesh.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::size_t kPortion = std::size_t{1} << 17;  // particles per rank: their copies take 5 MiB

template <typename Action>
void for_each_portion(std::size_t particles, Action&& action) {
  for (std::size_t first = 0; first < particles; first += kPortion)
    action(first, std::min(first + kPortion, particles));
}

constexpr std::uint32_t kMass = 1U << 16;  // a particle's mass in fixed point

/// Masses are whole numbers while they are summed. Their bits are stored in the grid that later holds the forces.
std::uint32_t mass(float stored) { return std::bit_cast<std::uint32_t>(stored); }
void add(float& stored, std::uint32_t more) { stored = std::bit_cast<float>(mass(stored) + more); }

/// A weight below 1 in units of 2^-16.
std::uint32_t fixed(float weight) {
  return static_cast<std::uint32_t>(static_cast<int>(weight * static_cast<float>(kMass)));
}
/// The rounded share of a mass. The caller keeps the rest, so nothing is lost. The product of a whole mass fits too,
/// because the weight is below 1.
std::uint32_t share(std::uint32_t whole, std::uint32_t weight) { return (whole * weight + kMass / 2) / kMass; }

/// Counts that send one plane to the rank above.
std::vector<int> to_rank_above(const Comm& group, std::size_t plane) {
  std::vector<int> counts(static_cast<std::size_t>(group.size()));
  counts[static_cast<std::size_t>((group.rank() + 1) % group.size())] = static_cast<int>(plane);
  return counts;
}

}  // namespace

void ParticleExchange::visit(const Vectors& position, const PlaneFinder& planes, const Visit& visit) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    send(position, first, last, planes);
    visit(there_);
  });
}

void ParticleExchange::ask(const Vectors& position, const PlaneFinder& planes, const Work& work, const Take& take) {
  for_each_portion(position[0].size(), [&](std::size_t first, std::size_t last) {
    const AllToAll way = send(position, first, last, planes);
    for (RealGrid& axis : answers_) axis.resize(way.received());
    work(there_, answers_);
    for (std::size_t axis = 0; axis < 3; ++axis) {
      way.answer(answers_[axis], here_);
      for (std::size_t i = 0; i < order_.size(); ++i) take(order_[i], axis, here_[i]);
    }
  });
}

AllToAll ParticleExchange::send(const Vectors& position, std::size_t first, std::size_t last,
                                const PlaneFinder& planes) {
  std::vector<int> counts(static_cast<std::size_t>(group_.size()));
  sort(position[0], first, last, planes, counts);
  AllToAll way(group_, counts);
  here_.resize(order_.size());
  for (std::size_t axis = 0; axis < 3; ++axis) {
    std::ranges::transform(order_, here_.begin(), [&](std::size_t particle) { return position[axis][particle]; });
    there_[axis].resize(way.received());
    way.send(here_, there_[axis]);
  }
  return way;
}

/// By counting sort.
void ParticleExchange::sort(const RealGrid& x, std::size_t first, std::size_t last, const PlaneFinder& planes,
                            std::vector<int>& counts) {
  const int per_rank = planes.n / group_.size();
  const auto rank_of = [&](std::size_t particle) { return static_cast<std::size_t>(planes(x[particle]) / per_rank); };
  for (std::size_t p = first; p < last; ++p) ++counts[rank_of(p)];
  std::vector<std::size_t> next(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), next.begin(), std::size_t{0});
  order_.resize(last - first);
  for (std::size_t p = first; p < last; ++p) order_[next[rank_of(p)]++] = p;
}

ParticleMesh::ParticleMesh(const Fft& fft, int lattice, Comm* group)
    : fft_(fft),
      group_(group),
      points_(fft.slab().points()),
      plane_(static_cast<std::size_t>(fft.size()) * static_cast<std::size_t>(fft.size())),
      particles_(Slab{lattice}.cube()),
      per_cell_(static_cast<float>(fft.size() / lattice)),
      planes_{per_cell_, std::fmod(0.5F + (1 - kLatticeOffset) * per_cell_, 1.0F), fft.size()},
      slopes_(difference_slopes(fft.size())),
      contrast_(fft.slab().modes()),
      scratch_(fft.slab().modes()) {
  for (RealGrid& axis : force_) axis.resize(points_ + plane_);
  if (group == nullptr) return;
  exchange_.emplace(*group);
  up_.emplace(*group, to_rank_above(*group, plane_));
}

/// Finds a particle's place. A loop uses a copy, whose values no store to a grid can change, so they stay in registers.
struct ParticleMesh::Locator {
  PlaneFinder planes;
  int first;  // first plane on this rank
  std::size_t plane;

  Cell operator()(float x, float y, float z) const {
    const auto n = static_cast<std::size_t>(planes.n);
    const float mx = planes.along(x), my = planes.along(y), mz = planes.along(z);
    const int i = static_cast<int>(mx), j = static_cast<int>(my), k = static_cast<int>(mz);
    const std::size_t x0 = static_cast<std::size_t>(planes.wrapped(i) - first) * plane;
    return {x0,
            x0 + plane,
            static_cast<std::size_t>(planes.wrapped(j)) * n,
            static_cast<std::size_t>(planes.wrapped(j + 1)) * n,
            static_cast<std::size_t>(planes.wrapped(k)),
            static_cast<std::size_t>(planes.wrapped(k + 1)),
            mx - static_cast<float>(i),
            my - static_cast<float>(j),
            mz - static_cast<float>(k)};
  }
};

ParticleMesh::Locator ParticleMesh::locator() const { return {planes_, fft_.slab().first(), plane_}; }

void ParticleMesh::deposit(const Vectors& position, RealGrid& masses) const {
  float* to = masses.data();
  const Locator locate = locator();
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position[0][p], position[1][p], position[2][p]);
    const std::uint32_t wx = fixed(c.x), wy = fixed(c.y), wz = fixed(c.z);
    const auto along_z = [&](std::size_t row, std::uint32_t whole) {
      const std::uint32_t above = share(whole, wz);
      add(to[row + c.z0], whole - above);
      add(to[row + c.z1], above);
    };
    const auto along_y = [&](std::size_t plane, std::uint32_t whole) {
      const std::uint32_t above = share(whole, wy);
      along_z(plane + c.y0, whole - above);
      along_z(plane + c.y1, above);
    };
    along_y(c.x0, kMass - wx);
    along_y(c.x1, wx);
  }
}

/// Adds what particles below the plane above have given to it, on the rank that has that plane.
void ParticleMesh::add_ghost(RealGrid& masses) {
  const std::span<float> ghost(masses.data() + points_, plane_);
  RealGrid arrived(plane_);
  if (up_)
    up_->send(ghost, arrived);
  else
    std::ranges::copy(ghost, arrived.begin());
  for (std::size_t i = 0; i < plane_; ++i) add(masses[i], mass(arrived[i]));
}

void ParticleMesh::copy_ghost(RealGrid& force) {
  const std::span<float> lowest(force.data(), plane_), ghost(force.data() + points_, plane_);
  if (up_)
    up_->answer(lowest, ghost);
  else
    std::ranges::copy(lowest, ghost.begin());
}

void ParticleMesh::to_numbers(RealGrid& masses) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < points_; ++i) {
    const std::uint32_t here = mass(masses[i]);
    sum += here;
    masses[i] = static_cast<float>(here) * (1 / static_cast<float>(kMass));
  }
  if (group_ != nullptr) group_->sum(std::span(&sum, 1));
  // Each overflow of a point's 32 bits loses 2^32 from the sum.
  if (sum != static_cast<std::int64_t>(particles_) * kMass)
    throw FaultError(
        "simulate cosmology: more than 65535 particles meet at a point of the mesh for the forces, more than its fixed "
        "point holds; ask for fewer particles per voxel, more mesh cells or a larger box");
}

void ParticleMesh::update(const Vectors& position) {
  RealGrid& masses = force_[0];
  std::ranges::fill(masses, std::bit_cast<float>(std::uint32_t{0}));
  if (exchange_)
    exchange_->visit(position, planes_, [&](const Vectors& here) { deposit(here, masses); });
  else
    deposit(position, masses);
  add_ghost(masses);
  to_numbers(masses);
  fft_.to_modes(std::span(masses).first(points_), contrast_);
  // Contrast is particles per point over their mean; a mesh cell is 1 / per_cell_ of a lattice cell. attraction()
  // leaves out the mode that is the mean.
  const float factor = per_cell_ * per_cell_ / static_cast<float>(fft_.slab().cube());
  for (int axis = 0; axis < 3; ++axis) {
    RealGrid& force = force_[static_cast<std::size_t>(axis)];
    attraction(contrast_, fft_.slab(), {axis, factor, slopes_}, scratch_);
    fft_.to_field(scratch_, std::span(force).first(points_));
    copy_ghost(force);
  }
}

/// Calls take(particle, axis, force).
template <typename Take>
void ParticleMesh::for_each_force(const Vectors& position, Take&& take) const {
  const Locator locate = locator();
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const Cell c = locate(position[0][p], position[1][p], position[2][p]);
    const float w00 = (1 - c.x) * (1 - c.y), w01 = (1 - c.x) * c.y, w10 = c.x * (1 - c.y), w11 = c.x * c.y;
    const std::array<float, 8> weight = {w00 * (1 - c.z), w00 * c.z, w01 * (1 - c.z), w01 * c.z,
                                         w10 * (1 - c.z), w10 * c.z, w11 * (1 - c.z), w11 * c.z};
    const std::array<std::size_t, 4> row = {c.x0 + c.y0, c.x0 + c.y1, c.x1 + c.y0, c.x1 + c.y1};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const float *below = force_[axis].data() + c.z0, *above = force_[axis].data() + c.z1;
      float sum = 0;
      for (std::size_t i = 0; i < 4; ++i) sum += weight[2 * i] * below[row[i]] + weight[2 * i + 1] * above[row[i]];
      take(p, axis, sum);
    }
  }
}

void ParticleMesh::add_forces(const Vectors& position, float factor, Vectors& to) {
  const auto add_to = [&](std::size_t particle, std::size_t axis, float force) {
    to[axis][particle] += factor * force;
  };
  if (!exchange_) return for_each_force(position, add_to);
  const auto work = [&](const Vectors& here, Vectors& answer) {
    for_each_force(here, [&](std::size_t particle, std::size_t axis, float force) { answer[axis][particle] = force; });
  };
  exchange_->ask(position, planes_, work, add_to);
}

namespace {

constexpr double kStart = 0.1;
constexpr double kSlope = -2.5;  // COLA assumes that velocities change as a^kSlope within a step

// Time's measure: d/dt is (1 / Q) d/da.
double q(const Growth& growth, double a) { return a * a * a * growth.expansion(a); }

}  // namespace

Evolution::Evolution(const Growth& growth, const Displacements& moved, const Slab& lattice)
    : growth_(growth), moved_(moved), lattice_(lattice) {
  for (RealGrid& axis : position_) axis.resize(moved.first[0].size());
}

void Evolution::start() {
  std::size_t p = 0;
  for (int x = lattice_.first(); x < lattice_.first() + lattice_.planes(); ++x)
    for (int y = 0; y < lattice_.n; ++y)
      for (int z = 0; z < lattice_.n; ++z, ++p) {
        position_[0][p] = static_cast<float>(x) + kLatticeOffset;
        position_[1][p] = static_cast<float>(y) + kLatticeOffset;
        position_[2][p] = static_cast<float>(z) + kLatticeOffset;
      }
}

// Displacements grow from one scale factor to another. Velocities are those at `middle`.
void Evolution::drift(double from, double to, double middle) {
  const auto first = static_cast<float>(growth_.linear(to) - growth_.linear(from));
  const auto second = static_cast<float>(growth_.second(to) - growth_.second(from));
  const auto time = static_cast<float>(
      integrate(from, to, 32, [&](double a) { return a <= 0 ? 0 : std::pow(a / middle, kSlope) / q(growth_, a); }));
  const float side = static_cast<float>(lattice_.n), inverse = 1 / side;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    float* x = position_[axis].data();
    const float* d1 = moved_.first[axis].data();
    const float* d2 = moved_.second[axis].data();
    const float* v = velocity_[axis].empty() ? nullptr : velocity_[axis].data();
    for (std::size_t p = 0; p < position_[axis].size(); ++p) {
      float at = x[p] + first * d1[p] + second * d2[p];
      if (v != nullptr) at += time * v[p];
      at -= side * static_cast<float>(static_cast<int>(at * inverse));
      at = at < 0 ? at + side : at;
      x[p] = at < side ? at : 0;  // a value just below 0 was rounded up to the side
    }
  }
}

// Gravity minus the part that the growth of the displacements already contains.
void Evolution::kick(double from, double to, double at, ParticleMesh& mesh) {
  const double time =
      (std::pow(to, kSlope) - std::pow(from, kSlope)) / (kSlope * std::pow(at, kSlope - 1) * q(growth_, at));
  const double d = growth_.linear(at);
  const auto pull = static_cast<float>(time * 1.5 * growth_.omega_m() * at);
  const auto first = static_cast<float>(d), second = static_cast<float>(growth_.second(at) + 7.0 / 3.0 * d * d);
  mesh.update(position_);
  mesh.add_forces(position_, pull, velocity_);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    float* v = velocity_[axis].data();
    const float* d1 = moved_.first[axis].data();
    const float* d2 = moved_.second[axis].data();
    for (std::size_t p = 0; p < velocity_[axis].size(); ++p) v[p] -= pull * (first * d1[p] + second * d2[p]);
  }
}

void Evolution::displaced(std::span<const double> scale_factors, const Snapshot& snapshot) {
  for (RealGrid& axis : velocity_) axis.clear();
  start();
  double now = 0;
  for (std::size_t i = 0; i < scale_factors.size(); ++i) {
    drift(now, scale_factors[i], scale_factors[i]);
    now = scale_factors[i];
    snapshot(i, position_);
  }
}

void Evolution::cola(std::span<const double> scale_factors, int steps, ParticleMesh& mesh, const Snapshot& snapshot) {
  for (RealGrid& axis : velocity_) axis.clear();
  start();
  drift(0, kStart, kStart);
  for (RealGrid& axis : velocity_) axis.assign(position_[0].size(), 0.0F);
  const auto time = [&](double step) { return kStart + (1 - kStart) * step / steps; };
  double velocity_at = kStart;
  std::size_t next = 0;
  for (int step = 0; step < steps; ++step) {
    const double end = step + 1 == steps ? 1 : time(step + 1), middle = time(step + 0.5);
    kick(velocity_at, middle, time(step), mesh);
    velocity_at = middle;
    double now = time(step);
    for (; next < scale_factors.size() && scale_factors[next] <= end; ++next) {
      drift(now, scale_factors[next], middle);
      now = scale_factors[next];
      snapshot(next, position_);
    }
    if (now < end) drift(now, end, middle);
  }
}

bool count_particles(const Vectors& position, const Voxels& voxels, std::size_t stride,
                     std::span<std::uint16_t> counts) {
  const PlaneFinder planes = voxels.planes();
  const auto voxel = [&planes](float x) { return static_cast<std::size_t>(planes(x)); };
  const auto n = static_cast<std::size_t>(voxels.size), first = static_cast<std::size_t>(voxels.first);
  bool fits = true;
  for (std::size_t p = 0; p < position[0].size(); ++p) {
    const std::size_t plane = voxel(position[0][p]) - first;
    std::uint16_t& count = counts[((plane * n + voxel(position[1][p])) * n + voxel(position[2][p])) * stride];
    fits &= ++count != 0;
  }
  return fits;
}

namespace {

constexpr std::uint64_t kFieldStream = 0x6669656C64;  // apart from the stream of the sample's labels

}  // namespace

UniverseMaker::UniverseMaker(const CosmologySimulation& settings, Comm* group)
    : settings_(settings),
      group_(group),
      voxels_{settings.size, group == nullptr ? 0 : group->rank(), group == nullptr ? 1 : group->size()},
      lattice_(settings.size * settings.particles),
      lattice_fft_(lattice_, group),
      mesh_fft_(lattice_ * settings.mesh, group) {}

UniverseMaker::Memory::Memory(const UniverseMaker& maker)
    : contrast_(maker.lattice_fft_.slab().modes()), scratch_(contrast_.size()) {
  if (maker.settings_.method == Displacement::cola) mesh_.emplace(maker.mesh_fft_, maker.lattice_, maker.group_);
  for (Vectors* vectors : {&moved_.first, &moved_.second})
    for (RealGrid& axis : *vectors) axis.resize(maker.lattice_fft_.slab().points());
}

std::array<float, kLabels> UniverseMaker::make(Index sample, Memory& memory, std::span<std::uint16_t> counts) const {
  const std::array<float, kLabels> labels = draw_labels(settings_.seed, sample);
  const std::uint64_t key = mix(settings_.seed, static_cast<std::uint64_t>(sample), kFieldStream);
  make({cosmology_of(labels), settings_.box, key}, memory, counts);
  return labels;
}

void UniverseMaker::make(const Universe& universe, Memory& memory, std::span<std::uint16_t> counts) const {
  const Cosmology& cosmology = universe.cosmology;
  const double side = universe.box * cosmology.hubble / 70;
  draw_modes(LinearPower(cosmology), side, universe.key, lattice_fft_.slab(), memory.contrast_);
  // The contrast at a lattice point has no unit; displacements come out in cells of the lattice.
  displace(lattice_fft_, memory.contrast_, memory.scratch_, memory.moved_);

  std::array<double, kRedshifts> scale_factors{};  // ascending, so the channels in reverse
  for (std::size_t i = 0; i < kRedshifts; ++i) scale_factors[i] = 1 / (1 + kRedshift[kRedshifts - 1 - i]);
  std::ranges::fill(counts, std::uint16_t{0});
  const auto snapshot = [&](std::size_t index, const Vectors& position) {
    count(position, counts.subspan(kRedshifts - 1 - index));
  };
  const Growth growth(cosmology.omega_m);
  Evolution evolution(growth, memory.moved_, lattice_fft_.slab());
  if (settings_.method == Displacement::cola)
    evolution.cola(scale_factors, settings_.steps, *memory.mesh_, snapshot);
  else
    evolution.displaced(scale_factors, snapshot);
}

void UniverseMaker::count(const Vectors& position, std::span<std::uint16_t> counts) const {
  const Voxels voxels{settings_.particles, settings_.size, voxels_.first()};
  bool fits = true;
  const auto add = [&](const Vectors& here) { fits &= count_particles(here, voxels, kRedshifts, counts); };
  if (group_ != nullptr) {
    ParticleExchange(*group_).visit(position, voxels.planes(), add);
    fits = !group_->any(!fits);
  } else {
    add(position);
  }
  if (!fits)
    throw FaultError(
        "simulate cosmology: more than 65535 particles meet in a voxel, more than the files' 16 bits hold; ask for "
        "fewer particles per voxel or a larger box");
}

}  // namespace mrmf::cosmology
