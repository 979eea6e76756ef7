// `mrmf simulate neuron`: makes a data set in the published schema of the Neuron Inverter benchmark.
//
// Every sample is one cell under one stimulus, with 23 of its conductances drawn at random. A network is to infer 19 of
// them from the potential at three points. The file's bytes depend only on the settings, including the file's name, not
// on ranks, threads or instruction set.
#pragma once

#include <cstdint>
#include <string>

#include "io/files/output_file.hpp"
#include "src/simulators/split_file.hpp"

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
