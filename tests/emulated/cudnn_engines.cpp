#include <array>
#include <numeric>

#include "tests/emulated/cudnn_model.hpp"
#include "tests/emulated/settings.hpp"

namespace mrmf::emulated::dnn {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// index, tensor_core, nondeterministic, down_converts, wrong, runtime_compiled, fails, workspace
constexpr std::array<Engine, 9> kEngines{{
    {0, true, false, false, true, false, false, 0},
    {1, false, false, false, true, false, false, 0},
    {2, true, false, false, false, false, true, 0},             // refused when its plan is finalized
    {3, true, false, false, false, false, false, 2048 * kMiB},  // more workspace than anyone should give
    {4, true, true, false, false, true, false, kMiB},
    {5, true, false, false, false, true, false, kMiB},
    {6, false, true, false, false, false, false, 0},
    {7, false, false, false, false, false, false, 4096},  // exact
    {8, true, false, true, false, false, false, 0},
}};

/// cuDNN pads and transposes what its tensor-core kernels cannot read.
bool channels_fit(const Graph& graph) {
  const Operation* convolution = graph.convolution();
  if (!convolution) return true;
  for (std::int64_t uid : {convolution->x, convolution->b, convolution->y}) {
    const Tensor& tensor = graph.tensor(uid);
    if (tensor.dims[1] % (graph.tensor(convolution->x).bf16 ? 8 : 4) != 0) return false;
  }
  return true;
}

bool filter_gradient_refused(const Graph& graph) {
  const Operation* convolution = graph.convolution();
  if (!convolution || convolution->kind != Kind::backward_filter) return false;
  const Tensor& result = graph.tensor(convolution->y);
  return graph.tensor(convolution->x).bf16 && !result.bf16 && !result.is_virtual;
}

}  // namespace

const Engine& engine(std::int64_t index) {
  require(index >= 0 && index < engine_count(), CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
          "no engine with global index " + std::to_string(index));
  return kEngines[static_cast<std::size_t>(index)];
}

std::int64_t engine_count() { return static_cast<std::int64_t>(kEngines.size()); }

std::vector<std::int64_t> proposals(const Graph& graph, cudnnBackendHeurMode_t mode) {
  if (filter_gradient_refused(graph)) return {};
  if (mode == CUDNN_HEUR_MODE_B) return {7, 5, 8};
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return {6, 7};
  std::vector<std::int64_t> list{2, 3, 4, 5, 6, 7};
  if (wrong_engine()) list.insert(list.begin(), {0, 1});
  return list;
}

std::int64_t workspace_of(const Engine& engine, const Graph& graph) {
  return engine.workspace + (engine.tensor_core && !channels_fit(graph) ? 256 * kMiB : 0);
}

void check_support(const Engine& engine, const Graph& graph) {
  require(!engine.fails, CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "engine 2 is for another architecture");
  require(!filter_gradient_refused(graph), CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
          "no engine writes a float filter gradient of bfloat16 inputs; go through a virtual float tensor");
}

}  // namespace mrmf::emulated::dnn
