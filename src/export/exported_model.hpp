// A trained network with its numbers, and what others have to know to use it: what is written to files of other
// programs' formats. And its form as a safetensors file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/rows/dataset.hpp"
#include "io/values/axes_and_channel_map.hpp"
#include "layers/model.hpp"
#include "layers/network.hpp"
#include "src/config/config.hpp"
#include "src/export/safetensors.hpp"
#include "src/run/model_file.hpp"

namespace mrmf {

struct ExportedModel {
  const Network& network;
  std::vector<float> params, state;  ///< the arenas, in the host's memory
  Task task = Task::regression;
  SampleLayout layout = SampleLayout::as_stored;
  ChannelMap samples;  ///< done to samples before the network sees them; empty, or of the channels of files
  ChannelMap labels;   ///< done to labels before training, so undone in outputs; empty, or of the output's channels
  std::map<std::string, std::string> facts{};  ///< for people and programs: "program", "run", "resolution", ...

  ConstSpan parameter(const TensorSpan& tensor) const { return tensor.in(ConstSpan(params)); }
  ConstSpan statistic(const TensorSpan& tensor) const { return tensor.in(ConstSpan(state)); }
};

/// Copies the model's numbers. The rest stays empty.
ExportedModel exported(Backend& backend, const Model& model);

/// The parts of a layer with their values in both arenas: "weight", "bias", "running_mean", ...
struct LayerTensor {
  std::string name;
  std::vector<Index> shape;
  ConstSpan values;
};
std::vector<LayerTensor> tensors_of(const ExportedModel& model, const LayerEntry& entry);

// A trained network as a safetensors file, and the parameters of a network from one.

/// The bytes of a safetensors file: a tensor "<layer>.<part>" for every part of every layer, in mrmf's order, channels
/// last. __metadata__ has the facts, and under "network" all that is needed to build the network anew, as JSON; see
/// jobs/load_safetensors.py, which does. ConfigError as onnx_bytes().
std::string safetensors_bytes(const ExportedModel& model);

/// Parameters and statistics of the model become those of the file. DataError, with the names, when tensors are
/// missing, are of no layer, have another shape, or hold NaN. On one rank; a model that has thrown is of no more use.
void read_parameters(Backend& backend, const SafetensorsFile& file, Model& model);

}  // namespace mrmf
