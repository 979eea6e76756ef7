// Each kind of layer as nodes of an ONNX graph. Private to src/export.
#pragma once

#include <vector>

#include "src/export/exported_model.hpp"
#include "src/export/onnx_graph.hpp"

namespace mrmf {

/// What the graph has for a tensor of the network: (rows, channels, positions...), or (rows, features) if it is flat.
/// Adds the layer's nodes; `inputs` are what it reads, in the order of the wiring.
OnnxGraph::Value add_layer(OnnxGraph& graph, const ExportedModel& model, const Entry& entry,
                           const std::vector<OnnxGraph::Value>& inputs);

/// (rows, channels, positions...) with its channels last, and back. `axes` of positions.
OnnxGraph::Value channels_last(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted);
OnnxGraph::Value channels_first(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted);

/// A row's sizes: (channels, positions...) or, with `last`, (positions..., channels).
std::vector<Index> row_shape(const Shape& shape, bool last);

}  // namespace mrmf
