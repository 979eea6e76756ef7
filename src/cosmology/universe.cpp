#include "src/cosmology/universe.hpp"

#include <algorithm>

#include "kernels/random.hpp"
#include "src/cosmology/counts.hpp"
#include "src/cosmology/random_field.hpp"

namespace mrmf::cosmology {
namespace {

constexpr std::uint64_t kFieldStream = 0x6669656C64;  // apart from the stream of the sample's labels

}  // namespace

UniverseMaker::UniverseMaker(const CosmologySimulation& settings)
    : settings_(settings),
      lattice_(settings.size * settings.particles),
      lattice_fft_(lattice_),
      mesh_fft_(lattice_ * settings.mesh) {}

UniverseMaker::Memory::Memory(const UniverseMaker& maker)
    : contrast_(maker.lattice_fft_.modes()),
      scratch_(maker.lattice_fft_.modes()),
      mesh_(maker.mesh_fft_, maker.lattice_) {
  for (Vectors* vectors : {&moved_.first, &moved_.second})
    for (RealGrid& axis : *vectors) axis.resize(maker.lattice_fft_.points());
}

std::array<float, kLabels> UniverseMaker::make(Index sample, Memory& memory, std::span<std::uint16_t> counts) const {
  const std::array<float, kLabels> labels = draw_labels(settings_.seed, sample);
  const Cosmology cosmology = cosmology_of(labels);
  const double side = settings_.box * cosmology.hubble / 70;
  const std::uint64_t key = mix(settings_.seed, static_cast<std::uint64_t>(sample), kFieldStream);
  draw_modes(LinearPower(cosmology), side, key, lattice_, memory.contrast_);
  // Contrast at a point of the lattice has unit 1; displacements come out in cells of the lattice.
  displace(lattice_fft_, memory.contrast_, memory.scratch_, memory.moved_);

  std::array<double, kRedshifts> scale_factors{};  // ascending: the channels backwards
  for (std::size_t i = 0; i < kRedshifts; ++i) scale_factors[i] = 1 / (1 + kRedshift[kRedshifts - 1 - i]);
  std::ranges::fill(counts, std::uint16_t{0});
  const auto count = [&](std::size_t index, const Vectors& position) {
    const std::size_t channel = kRedshifts - 1 - index;
    count_particles(position, settings_.particles, settings_.size, kRedshifts, counts.subspan(channel));
  };
  const Growth growth(cosmology.omega_m);
  Evolution evolution(growth, memory.moved_, lattice_);
  if (settings_.method == "cola")
    evolution.cola(scale_factors, settings_.steps, memory.mesh_, count);
  else
    evolution.displaced(scale_factors, count);
  return labels;
}

}  // namespace mrmf::cosmology
