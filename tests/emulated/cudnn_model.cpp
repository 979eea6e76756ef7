#include "tests/emulated/cudnn_model.hpp"

#include <nlohmann/json.hpp>

namespace mrmf::emulated::dnn {

std::size_t Tensor::count() const {
  std::size_t product = 1;
  for (std::int64_t dim : dims) product *= static_cast<std::size_t>(dim);
  return product;
}

std::size_t Tensor::extent() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides[i];
  return (static_cast<std::size_t>(last) + 1) * bytes_of(element());
}

const Tensor& Graph::tensor(std::int64_t uid) const {
  for (const Tensor& each : tensors)
    if (each.uid == uid) return each;
  throw Refusal(CUDNN_STATUS_BAD_PARAM, "no tensor with unique id " + std::to_string(uid));
}

const Operation* Graph::convolution() const {
  for (const Operation& each : operations)
    if (each.is_convolution()) return &each;
  return nullptr;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Tensor, uid, alignment, bf16, is_virtual, dims, strides)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Convolution, pre, post, stride, dilation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Operation, kind, x, b, y, convolution, slope)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Graph, tensors, operations)

std::string plan_text(const Graph& graph, std::int64_t engine) {
  return nlohmann::json{{"emulated_plan", 1}, {"engine", engine}, {"graph", graph}}.dump();
}

PlanFromText read_plan(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  require(json.is_object() && json.value("emulated_plan", 0) == 1, CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
          "this is no plan of this library");
  try {
    return {json.at("graph").get<Graph>(), json.at("engine").get<std::int64_t>()};
  } catch (const nlohmann::json::exception& error) {
    throw Refusal(CUDNN_STATUS_BAD_PARAM, std::string("damaged plan: ") + error.what());
  }
}

}  // namespace mrmf::emulated::dnn
