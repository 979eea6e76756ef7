// Mean and standard deviation of a cell's potentials, per probe: exact on any number of ranks.
#pragma once

#include <array>
#include <vector>

#include "mpi/comm.hpp"
#include "src/simulators/neuron/recorder.hpp"

namespace mrmf::neuron {

/// A cell's first samples stand for all of them.
inline constexpr Index kNormalisationSamples = 128;

struct ProbeScale {
  double mean = 0, deviation = 1;  ///< mV
};
using CellScale = std::array<ProbeScale, kProbes>;

/// Sums per sample, each made by one rank in a fixed order; adding the ranks' tables adds zeros to them, so every rank
/// goes on with the same bits.
class Normalisation {
 public:
  explicit Normalisation(const NeuronSimulation& settings);
  static bool counts(const Origin& origin) { return origin.sample < kNormalisationSamples; }
  /// One sample's potentials in mV.
  void add(const Origin& origin, std::span<const float> frame);
  /// Collective.
  std::vector<CellScale> finish(Comm& comm);

 private:
  std::size_t at(Index cell, Index sample, int probe) const;
  int cells_;
  Index samples_;  // of one cell, at most
  std::vector<double> sums_;
};

/// (x - mean) / deviation.
void normalise(std::span<float> frame, const CellScale& scale);

}  // namespace mrmf::neuron
