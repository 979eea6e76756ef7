// A trained network as a safetensors file, and the parameters of a network from one.
#pragma once

#include <string>

#include "src/export/exported_model.hpp"
#include "src/export/safetensors.hpp"

namespace mrmf {

/// The bytes of a safetensors file: a tensor "<layer>.<part>" for every part of every layer, in mrmf's order, channels
/// last. __metadata__ has the facts, and under "network" all that is needed to build the network anew, as JSON; see
/// jobs/load_safetensors.py, which does. ConfigError as onnx_bytes().
std::string safetensors_bytes(const ExportedModel& model);

/// Parameters and statistics of the model become those of the file. DataError, with the names, when tensors are
/// missing, are of no layer, have another shape, or hold NaN. On one rank; a model that has thrown is of no more use.
void read_parameters(Backend& backend, const SafetensorsFile& file, Model& model);

}  // namespace mrmf
