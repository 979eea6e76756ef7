#pragma once
#include <cudnn.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/emulated/numbers.hpp"

namespace mrmf::emulated::dnn {

/// A refused call of cuDNN.
struct Refusal : std::runtime_error {
  Refusal(cudnnStatus_t error, const std::string& text) : std::runtime_error(text), status(error) {}
  cudnnStatus_t status;
};

inline void require(bool condition, cudnnStatus_t status, const std::string& text) {
  if (!condition) throw Refusal(status, text);
}

/// What finalized descriptors say, without the descriptors. Dimensions are (n, c, spatial...).
struct Tensor {
  std::int64_t uid = 0, alignment = 0;
  bool bf16 = false, is_virtual = false;
  std::vector<std::int64_t> dims, strides;

  Element element() const { return bf16 ? Element::bf16 : Element::f32; }
  std::size_t count() const;
  /// Bytes from the first to behind the last element.
  std::size_t extent() const;
};

struct Convolution {
  std::vector<std::int64_t> pre, post, stride, dilation;
};

enum class Kind { forward, backward_data, backward_filter, add, identity, relu };

/// `y` = op(`x`, `b`) by unique ids. Convolutions: forward (x, w), backward data (dy, w), backward filter (x, dy).
struct Operation {
  Kind kind = Kind::identity;
  std::int64_t x = 0, b = 0, y = 0;
  Convolution convolution;
  double slope = 0;

  bool is_convolution() const { return kind <= Kind::backward_filter; }
};

struct Graph {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations;

  const Tensor& tensor(std::int64_t uid) const;
  const Operation* convolution() const;
};

/// An engine of the emulator. Index 0 and 1 compute something else than asked (MRMF_EMULATED_WRONG_ENGINE).
struct Engine {
  std::int64_t index;
  bool tensor_core, nondeterministic, down_converts, wrong, runtime_compiled, fails;
  std::int64_t workspace;
};

const Engine& engine(std::int64_t index);
std::int64_t engine_count();
/// The engines that a heuristics mode proposes for a graph, in its order; none where cuDNN has none.
std::vector<std::int64_t> proposals(const Graph& graph, cudnnBackendHeurMode_t mode);
std::int64_t workspace_of(const Engine& engine, const Graph& graph);
/// Throws where the engine cannot run the graph.
void check_support(const Engine& engine, const Graph& graph);

std::string plan_text(const Graph& graph, std::int64_t engine);
struct PlanFromText {
  Graph graph;
  std::int64_t engine;
};
PlanFromText read_plan(const std::string& text);

/// Device pointers of one execution, in the order of `Graph::tensors` (null for virtual ones).
struct Pointers {
  std::vector<void*> data;
  void* workspace = nullptr;
};
/// Products of a convolution that are added up, counting those with padding; 0 of other graphs.
double multiply_adds(const Graph& graph);
/// Runs on the emulated device, in its turn.
void execute(const Graph& graph, const Engine& engine, const Pointers& pointers);

}  // namespace mrmf::emulated::dnn
