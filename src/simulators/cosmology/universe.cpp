#include "src/simulators/cosmology/universe.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/errors.hpp"
#include "kernels/random.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"

namespace mrmf::cosmology {
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
