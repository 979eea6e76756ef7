// `mrmf simulate neuron`: makes a data set in the published schema of the Neuron Inverter benchmark.
//
// Every sample is one cell under one stimulus, with 23 of its conductances drawn at random. A network is to infer 19 of
// them from the potential at three points. The file's bytes depend only on the settings, including the file's name, not
// on ranks, threads or instruction set.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/files/output_file.hpp"
#include "mpi/comm.hpp"
#include "src/simulators/neuron/cell.hpp"
#include "src/simulators/split_files_and_random_fields.hpp"

namespace mrmf {

struct NeuronSimulation {
  std::string file;
  Replace replace = Replace::nothing;
  Index samples = 16000;   ///< in all cells and splits together
  int cells = 8;           ///< the electrical types take turns
  std::uint64_t seed = 1;  ///< draws conductances and the order of rows; the cells do not depend on it
  double train = 0.8, validation = 0.1, test = 0.1;  ///< shares of the samples; sum 1
  int threads = 0;                                   ///< per rank; 0: OpenMP's number
};

struct NeuronReport {
  Index samples = 0;
  double seconds = 0;             ///< including normalisation and writing
  double samples_per_second = 0;  ///< samples per second of all ranks together
  double spiking_share = 0;       ///< share of samples whose soma rises above -10 mV
};

/// ConfigError when the settings are impossible.
void check(const NeuronSimulation& settings);

/// Collective. Writes `settings.file`, whole or not at all; errors as OutputFile's:
///   train_frames, val_frames, test_frames        (n, 1600, 3)  potential of soma, axon, dendrite at 8 kHz,
///                                                              per cell and probe (x - mean) / standard deviation
///   train_unitStar_par, val_..., test_...        (n, 19)       labels in [-1, 1]
///   meta.JSON                                    (1,)          cells, labels, normalisation, seed, ...
/// Rows are shuffled over all cells and splits. Mean and deviation are those of the cell's first 128 samples.
NeuronReport simulate_neuron(const NeuronSimulation& settings, Comm& comm, const ProgressFunction& progress = {});

}  // namespace mrmf

namespace mrmf::neuron {

// The samples of a data set: each row's sample and its drawn conductances, both pure functions of the settings; their
// simulation by one stimulus; and their normalisation.

// The current that every cell receives at its soma. It is the same for all samples, so that responses distinguish
// conductances. It replaces the data set's chaotic stimulus and is built from its published description: nothing
// outside 20-140 ms; inside, a slow oscillation that grows until a spike of about 2 ms resets it, ten times.

inline constexpr double kDuration = 200;        ///< ms
inline constexpr double kStimulusStep = 0.025;  ///< ms between the values of the trace
inline constexpr int kStimulusValues = 8000;

/// The current in nA at 0, 0.025, ... ms.
std::vector<double> stimulus();

/// The linearly interpolated trace at the middle of each of `steps` time steps of `dt` ms, where a backward Euler step
/// takes its current.
std::vector<double> midpoint_current(std::span<const double> trace, double dt, int steps);

FileSplits splits(const NeuronSimulation& settings);

/// The origin of a row: sample `sample` of cell `cell`.
struct Origin {
  int cell;
  Index sample;
};

/// Rows of all splits in their shuffled order.
class RowOrder {
 public:
  explicit RowOrder(const NeuronSimulation& settings);
  Origin operator[](Index row) const;

 private:
  int cells_;
  std::vector<std::int64_t> ids_;
};

/// The exponents of a sample's conductances, uniform in [-1, 1).
std::array<double, kParameters> draw_exponents(std::uint64_t seed, const Origin& origin);

inline constexpr double kTimeStep = 0.025;        ///< ms
inline constexpr int kStepsPerBin = 5;            ///< to 8 kHz
inline constexpr int kBins = 1600;                ///< 200 ms
inline constexpr Index kFrame = kBins * kProbes;  ///< numbers per sample
inline constexpr float kSpikeLevel = -10;         ///< mV

/// Simulates any set of samples with all threads of a rank.
class Recorder {
 public:
  Recorder(int cells, std::uint64_t seed, int threads);

  /// Potentials in mV, one (kBins, kProbes) frame per origin; labels, kLabels per origin. Returns the number of samples
  /// that spiked. FaultError when a potential is not finite.
  Index record(std::span<const Origin> origins, std::span<float* const> frames, std::span<float* const> labels) const;

  const Cell& cell(int number) const { return cables_[static_cast<std::size_t>(number)].cell(); }

 private:
  struct Batch;
  Index run(const Batch& batch, CableWork& work) const;

  std::uint64_t seed_;
  int threads_;
  std::vector<Cable> cables_;
};

/// A cell's first samples represent all of them.
inline constexpr Index kNormalisationSamples = 128;

struct ProbeScale {
  double mean = 0, deviation = 1;  ///< mV
};
using CellScale = std::array<ProbeScale, kProbes>;

/// Mean and standard deviation of a cell's potentials, per probe; exact on any number of ranks. There are sums per
/// sample, each made by one rank in a fixed order. Adding the ranks' tables only adds zeros to them, so every rank
/// continues with the same bits.
class Normalisation {
 public:
  explicit Normalisation(const NeuronSimulation& settings);
  static bool counts(const Origin& origin) { return origin.sample < kNormalisationSamples; }
  /// Adds one sample's potentials, in mV.
  void add(const Origin& origin, std::span<const float> frame);
  /// Collective.
  std::vector<CellScale> finish(Comm& comm);

 private:
  std::size_t at(Index cell, Index sample, int probe) const;
  int cells_;
  Index samples_;  // most samples of one cell
  std::vector<double> sums_;
};

/// (x - mean) / deviation.
void normalise(std::span<float> frame, const CellScale& scale);

}  // namespace mrmf::neuron
