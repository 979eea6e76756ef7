// What exports say of a layer of each kind: its nodes in ONNX, and its settings, which stand in safetensors files.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/export/exported_model.hpp"
#include "src/export/onnx_graph.hpp"

namespace mrmf {

/// ConfigError, with the layer, where formats that tell positions from flat features cannot say what a network does.
void require_sayable(const Network& network);

/// What the graph has for a tensor of the network: (rows, channels, positions...), or (rows, features) if it is flat.
/// Adds the layer's nodes; `inputs` are what it reads, in the order of the wiring.
OnnxGraph::Value add_layer(OnnxGraph& graph, const ExportedModel& model, const LayerEntry& entry,
                           const std::vector<OnnxGraph::Value>& inputs);

/// The layer's settings, with every size in numbers, but for those that its tensors' shapes tell. As
/// jobs/load_safetensors.py reads them.
nlohmann::ordered_json exported_settings(const LayerEntry& entry);

}  // namespace mrmf
