// Steps recorded as CUDA graphs: launching some forty kernels one by one costs as much as running them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace mrmf::cuda {

struct DestroyRecord {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using Record = std::unique_ptr<CUgraphExec_st, DestroyRecord>;

/// All that `calls` queue on the stream, to be launched at once. Nothing of it runs yet.
Record record(cudaStream_t stream, const std::function<void()>& calls);

/// The first step of a key runs call by call, which also loads its kernels; the second is recorded; from there on the
/// record is launched.
class Recorder {
 public:
  Recorder(cudaStream_t stream, bool enabled) : stream_(stream), enabled_(enabled) {}

  void run(std::uint64_t key, const std::function<void()>& calls);
  void forget() { records_.clear(); }

 private:
  cudaStream_t stream_;
  bool enabled_;
  std::map<std::uint64_t, Record> records_;  // an empty one: run once
};

}  // namespace mrmf::cuda
