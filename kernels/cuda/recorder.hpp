// Steps recorded as CUDA graphs: launching some forty kernels one by one costs as much as running them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace mrmf::cuda {

/// The first step of a key runs call by call, which also loads its kernels; the second is recorded; from there on the
/// record is launched.
class Recorder {
 public:
  Recorder(cudaStream_t stream, bool enabled) : stream_(stream), enabled_(enabled) {}

  void run(std::uint64_t key, const std::function<void()>& calls);
  void forget() { records_.clear(); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  using Graph = std::unique_ptr<CUgraphExec_st, Destroy>;
  Graph record(const std::function<void()>& calls);

  cudaStream_t stream_;
  bool enabled_;
  std::map<std::uint64_t, Graph> records_;  // an empty one: run once
};

}  // namespace mrmf::cuda
