// `mrmf bench layers`: where a training step's time goes, beside what oneDNN's own primitives reach in the same run.
#pragma once

#include <iosfwd>

#include "kernels/backend.hpp"
#include "src/bench/bench.hpp"

namespace mrmf {

/// Times the layers of neuron_inverter one by one for settings.sample and settings.batch, and oneDNN's best for conv2,
/// conv3 and the dense layers measured alone (best of channels-last and its own layouts, reorders not counted).
/// Prints per layer both times, ours / oneDNN's and GFLOP/s, then the sums and the ratio of a whole step.
void bench_layers(Backend& backend, const BenchSettings& settings, std::ostream& out);

}  // namespace mrmf
