// One sample: from a seed to counts of particles.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "src/cosmology/evolution.hpp"
#include "src/cosmology/parameters.hpp"
#include "src/cosmology/simulate.hpp"

namespace mrmf::cosmology {

constexpr std::size_t kRedshifts = 4;
constexpr std::array<double, kRedshifts> kRedshift = {0, 0.5, 1.5, 3};  ///< the channels of a sample

/// Makes samples of one data set. It holds the transforms' plans; any number of threads may use it, each with memory of
/// its own.
class UniverseMaker {
 public:
  explicit UniverseMaker(const CosmologySimulation& settings);

  /// What one thread works in.
  class Memory {
   public:
    explicit Memory(const UniverseMaker& maker);

   private:
    friend class UniverseMaker;
    ModeGrid contrast_, scratch_;
    Displacements moved_;
    ParticleMesh mesh_;
  };

  /// Writes the counts, (size, size, size, 4), and returns the labels. A pure function of settings and sample.
  std::array<float, kLabels> make(Index sample, Memory& memory, std::span<std::uint16_t> counts) const;

 private:
  CosmologySimulation settings_;
  int lattice_;  // particles per axis
  Fft lattice_fft_, mesh_fft_;
};

}  // namespace mrmf::cosmology
