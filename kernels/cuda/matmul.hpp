// One matrix product by cuBLASLt, with its shape, its algorithm and its workspace fixed beforehand.
#pragma once

#include <cublasLt.h>

#include <memory>

#include "kernels/cuda/settings.hpp"
#include "kernels/tensor.hpp"

namespace mrmf::cuda {

class Device;

/// D(rows, columns) = op(A)(rows, inner) op(B)(inner, columns) [+ bias(rows)] in cuBLAS's order, columns first: a
/// matrix has its first index running fastest and is packed.
struct MatmulProblem {
  Index rows = 0, columns = 0, inner = 0;
  bool transpose_a = false, transpose_b = false;
  bool bias = false;          ///< in the storage type, one value per row of D
  bool float_result = false;  ///< D in float32, else in the storage type as A and B
};

class Matmul {
 public:
  /// FaultError when cuBLASLt has no algorithm for it.
  Matmul(Device& device, const MatmulProblem& problem);

  std::size_t workspace() const { return workspace_; }
  void run(const void* a, const void* b, const void* bias, void* d);

 private:
  struct DestroyMatmul {
    void operator()(cublasLtMatmulDesc_t p) const { cublasLtMatmulDescDestroy(p); }
  };
  struct DestroyLayout {
    void operator()(cublasLtMatrixLayout_t p) const { cublasLtMatrixLayoutDestroy(p); }
  };
  using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;
  void describe(const MatmulProblem& problem);
  void choose(bool deterministic);

  Device& device_;
  std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyMatmul> product_;
  Layout a_, b_, d_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_ = 0;
  bool bias_;
};

}  // namespace mrmf::cuda
