// An ONNX graph in the making: values by name, nodes, constants. The only place that sees ONNX and protobuf.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

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

}  // namespace mrmf
