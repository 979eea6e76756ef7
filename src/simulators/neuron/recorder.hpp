// Simulates any set of samples with all threads of a rank.
#pragma once

#include <span>
#include <vector>

#include "src/simulators/neuron/cable.hpp"
#include "src/simulators/neuron/sampling.hpp"

namespace mrmf::neuron {

inline constexpr double kTimeStep = 0.025;        ///< ms
inline constexpr int kStepsPerBin = 5;            ///< to 8 kHz
inline constexpr int kBins = 1600;                ///< 200 ms
inline constexpr Index kFrame = kBins * kProbes;  ///< numbers per sample
inline constexpr float kSpikeLevel = -10;         ///< mV

class Recorder {
 public:
  Recorder(int cells, std::uint64_t seed, int threads);

  /// Potentials in mV, one (kBins, kProbes) frame per origin; labels, kLabels per origin. Returns how many of the
  /// samples spiked. FaultError when a potential is not finite.
  Index record(std::span<const Origin> origins, std::span<float* const> frames, std::span<float* const> labels) const;

  const Cell& cell(int number) const { return cables_[static_cast<std::size_t>(number)].cell(); }

 private:
  struct Batch;
  Index run(const Batch& batch, CableWork& work) const;

  std::uint64_t seed_;
  int threads_;
  std::vector<Cable> cables_;
};

}  // namespace mrmf::neuron
