// A trained network as an ONNX file: its bytes, and how its graph has positions and channels.
#pragma once

#include <string>
#include <vector>

#include "src/export/exported_model.hpp"
#include "src/export/onnx_graph.hpp"

namespace mrmf {

/// (rows, channels, positions...) with its channels last, and back. `axes` of positions.
OnnxGraph::Value channels_last(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted);
OnnxGraph::Value channels_first(OnnxGraph& graph, const OnnxGraph::Value& value, int axes, const std::string& wanted);

/// A row's sizes: (channels, positions...) or, with `last`, (positions..., channels).
std::vector<Index> row_shape(const Shape& shape, bool last);

/// The bytes of an ONNX file, opset kOnnxOpset, float32. Its input "samples" is (batch, positions..., channels), as
/// mrmf reads samples from files, before model.samples is done to them; its output "prediction" is as `mrmf predict`
/// writes it, with model.labels undone. Of yes or no, and of classes, it also has "probability". Any number of rows.
/// ConfigError, which names the layer, for what the format cannot say.
std::string onnx_bytes(const ExportedModel& model);

}  // namespace mrmf
