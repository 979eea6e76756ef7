// `mrmf bench training`: samples per second of a whole training step on made-up data.
#pragma once

#include <iosfwd>

#include "src/config.hpp"

namespace mrmf {

struct BenchSettings {
  std::string preset = "neuron_inverter";
  Shape sample;  ///< of one sample; n is ignored
  int batch = 512;
  int steps = 10;  ///< timed, after two that are not
};

/// Times forward, loss, backward and Adam. Prints a line per part's median and, last, one line of JSON:
/// {"samples_per_second": ..., "step_seconds": ..., ...}.
void bench_training(Backend& backend, const BenchSettings& settings, std::ostream& out);

}  // namespace mrmf
