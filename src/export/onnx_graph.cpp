#include "src/export/onnx_graph.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>  // with ONNX_ML (CMakeLists.txt), as Debian builds it

#include <bit>
#include <cstring>
#include <set>

#include "generated/version.hpp"
#include "kernels/errors.hpp"

namespace mrmf {
namespace {

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - (std::size_t{1} << 20);  // protobuf's, less the structure

static_assert(std::endian::native == std::endian::little, "ONNX's raw data are little-endian");

void describe(onnx::ValueInfoProto& value, const std::string& name, const std::vector<Index>& row) {
  value.set_name(name);
  onnx::TypeProto_Tensor& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_shape()->add_dim()->set_dim_param("batch");
  for (const Index size : row) type.mutable_shape()->add_dim()->set_dim_value(size);
}

struct SetAttribute {
  onnx::AttributeProto& to;
  void operator()(Index value) const { to.set_type(onnx::AttributeProto::INT), to.set_i(value); }
  void operator()(float value) const { to.set_type(onnx::AttributeProto::FLOAT), to.set_f(value); }
  void operator()(const std::string& value) const { to.set_type(onnx::AttributeProto::STRING), to.set_s(value); }
  void operator()(const std::vector<Index>& values) const {
    to.set_type(onnx::AttributeProto::INTS);
    for (const Index value : values) to.add_ints(value);
  }
};

}  // namespace

struct OnnxGraph::State {
  onnx::ModelProto model;
  std::set<std::string> names;
  std::size_t constants = 0;  // bytes

  onnx::GraphProto& graph() { return *model.mutable_graph(); }
  onnx::TensorProto& tensor(const std::string& name, const std::vector<Index>& shape, int type) {
    onnx::TensorProto& made = *graph().add_initializer();
    made.set_name(name);
    made.set_data_type(type);
    for (const Index size : shape) made.add_dims(size);
    return made;
  }
  void fill(onnx::TensorProto& tensor, const void* values, std::size_t bytes) {
    constants += bytes;
    require_onnx_size(constants);
    tensor.mutable_raw_data()->assign(static_cast<const char*>(values), bytes);
  }
};

OnnxGraph::OnnxGraph() : state_(std::make_unique<State>()) {}
OnnxGraph::~OnnxGraph() = default;

void require_onnx_size(std::size_t bytes) {
  if (bytes > kMostBytes)
    throw ConfigError(
        fmt::format("the parameters take {:.1f} GB, and an ONNX file holds at most 2.1 GB; write them with "
                    "--format safetensors",
                    static_cast<double>(bytes) / 1e9));
}

std::string OnnxGraph::unique(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !state_->names.insert(name).second; ++number) name = fmt::format("{}_{}", wanted, number);
  return name;
}

OnnxGraph::Value OnnxGraph::input(const std::string& name, const std::vector<Index>& row) {
  const Value value = unique(name);
  describe(*state_->graph().add_input(), value, row);
  return value;
}

void OnnxGraph::output(const Value& value, const std::vector<Index>& row) {
  describe(*state_->graph().add_output(), value, row);
}

OnnxGraph::Value OnnxGraph::add(const std::string& op, const std::vector<Value>& inputs, const std::string& wanted,
                                const Attributes& attributes) {
  onnx::NodeProto& node = *state_->graph().add_node();
  const Value value = unique(wanted);
  node.set_op_type(op);
  node.set_name(value);
  for (const Value& input : inputs) node.add_input(input);
  node.add_output(value);
  for (const auto& [name, content] : attributes) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    std::visit(SetAttribute{attribute}, content);
  }
  return value;
}

OnnxGraph::Value OnnxGraph::constant(const std::string& wanted, const std::vector<Index>& shape, ConstSpan values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, shape, onnx::TensorProto::FLOAT), values.data(), values.size_bytes());
  return value;
}

OnnxGraph::Value OnnxGraph::sizes(const std::string& wanted, const std::vector<Index>& values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, {std::ssize(values)}, onnx::TensorProto::INT64), values.data(),
               values.size() * sizeof(Index));
  return value;
}

OnnxGraph::Value OnnxGraph::doubles(const std::string& wanted, const std::vector<double>& values) {
  const Value value = unique(wanted);
  state_->fill(state_->tensor(value, {std::ssize(values)}, onnx::TensorProto::DOUBLE), values.data(),
               values.size() * sizeof(double));
  return value;
}

OnnxGraph::Value OnnxGraph::cast(const Value& value, bool to_double, const std::string& wanted) {
  return add("Cast", {value}, wanted,
             {{"to", Index{to_double ? onnx::TensorProto::DOUBLE : onnx::TensorProto::FLOAT}}});
}

std::string OnnxGraph::bytes(const std::string& name, const std::string& text,
                             const std::map<std::string, std::string>& facts) {
  onnx::ModelProto& model = state_->model;
  constexpr int ir_version = 8;  // the one that came with the opset
  model.set_ir_version(ir_version);
  model.set_producer_name("mrmf");
  model.set_producer_version(kVersion);
  model.set_doc_string(text);
  model.mutable_graph()->set_name(name);
  model.mutable_graph()->set_doc_string(text);
  model.add_opset_import()->set_version(kOnnxOpset);
  for (const auto& [key, value] : facts) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  std::string bytes;
  MRMF_CHECK(model.SerializeToString(&bytes), "an ONNX model that protobuf does not write");
  return bytes;
}

}  // namespace mrmf
