// The text that goes into meta.JSON.
#pragma once

#include <string>
#include <vector>

#include "src/simulators/neuron/samples.hpp"

namespace mrmf::neuron {

std::string metadata(const NeuronSimulation& settings, const Recorder& recorder, const std::vector<CellScale>& scales);

}  // namespace mrmf::neuron
