// ONNX export: a graph in the making, what exports say of a layer of each kind, and a trained network as the bytes of
// an ONNX file. What stands here of a layer's settings is in safetensors files, too.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/export/exported_model.hpp"

namespace mrmf {

// An ONNX graph in the making: values by name, nodes, constants. The only place that sees ONNX and protobuf.

/// The version of the operators that files are written for: every runtime since ONNX 1.12 (2022) has it.
inline constexpr int kOnnxOpset = 17;

class OnnxGraph {
 public:
  using Value = std::string;  ///< the name of what a node gives, of an input or of a constant
  using Attribute = std::variant<Index, float, std::string, std::vector<Index>>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;

  OnnxGraph();
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;
  OnnxGraph& operator=(const OnnxGraph&) = delete;

  /// A float32 tensor of any number of rows, each of this shape.
  Value input(const std::string& name, const std::vector<Index>& row);
  void output(const Value& value, const std::vector<Index>& row);

  /// A node of one output. The value, and the node, have the name that is wanted, or a longer one if that is taken.
  Value add(const std::string& op, const std::vector<Value>& inputs, const std::string& wanted,
            const Attributes& attributes = {});
  Value constant(const std::string& wanted, const std::vector<Index>& shape, ConstSpan values);
  Value sizes(const std::string& wanted, const std::vector<Index>& values);  ///< sizes of one axis
  Value doubles(const std::string& wanted, const std::vector<double>& values);
  Value cast(const Value& value, bool to_double, const std::string& wanted);

  /// The file's bytes. ConfigError where they are more than the format's container, protobuf, may hold (2 GB).
  std::string bytes(const std::string& name, const std::string& text, const std::map<std::string, std::string>& facts);

 private:
  struct State;
  std::string unique(const std::string& wanted);
  std::unique_ptr<State> state_;
};

/// ConfigError where constants of so many bytes are more than a file may hold.
void require_onnx_size(std::size_t bytes);

// What exports say of a layer of each kind: its nodes in ONNX, and its settings, which stand in safetensors files.

/// ConfigError, with the layer, where formats that tell positions from flat features cannot say what a network does.
void require_sayable(const Network& network);

/// What the graph has for a tensor of the network: (rows, channels, positions...), or (rows, features) if it is flat.
/// Adds the layer's nodes; `inputs` are what it reads, in the order of the wiring.
OnnxGraph::Value add_layer(OnnxGraph& graph, const ExportedModel& model, const LayerEntry& entry,
                           const std::vector<OnnxGraph::Value>& inputs);

/// The layer's settings, with every size in numbers, but for those that its tensors' shapes tell. As
/// jobs/load_safetensors.py reads them.
nlohmann::ordered_json exported_settings(const LayerEntry& entry);

// A trained network as an ONNX file: its bytes, and how its graph has positions and channels.

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
