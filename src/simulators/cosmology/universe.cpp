#include "src/simulators/cosmology/universe.hpp"

#include <algorithm>

#include "kernels/check.hpp"
#include "kernels/random.hpp"
#include "src/simulators/cosmology/initial_conditions.hpp"

namespace mrmf::cosmology {

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
  const Cosmology cosmology = cosmology_of(labels);
  const double side = settings_.box * cosmology.hubble / 70;
  const std::uint64_t key = mix(settings_.seed, static_cast<std::uint64_t>(sample), kFieldStream);
  draw_modes(LinearPower(cosmology), side, key, lattice_fft_.slab(), memory.contrast_);
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
  return labels;
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
