#include "kernels/cuda/matmul.hpp"

#include <fmt/format.h>

#include "kernels/cuda/check_cublas.hpp"
#include "kernels/cuda/device.hpp"

namespace mrmf::cuda {
namespace {

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
};
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, DestroyPreference>;

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  MRMF_CUBLAS(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)));
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  MRMF_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)));
}

cublasLtMatrixLayout_t layout(cudaDataType_t type, Index rows, Index columns) {
  cublasLtMatrixLayout_t result = nullptr;
  MRMF_CUBLAS(cublasLtMatrixLayoutCreate(&result, type, static_cast<std::uint64_t>(rows),
                                         static_cast<std::uint64_t>(columns), rows));
  return result;
}

}  // namespace

Matmul::Matmul(Device& device, const MatmulProblem& problem) : device_(device), bias_(problem.bias) {
  describe(problem);
  choose(device.settings().deterministic);
  device.reserve(Device::Scratch::workspace, workspace_);
}

void Matmul::describe(const MatmulProblem& problem) {
  const Settings& settings = device_.settings();
  const cudaDataType_t type = settings.precision == Precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  const cublasComputeType_t compute =
      settings.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t product = nullptr;
  MRMF_CUBLAS(cublasLtMatmulDescCreate(&product, compute, CUDA_R_32F));
  product_.reset(product);
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, operation(problem.transpose_a));
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, operation(problem.transpose_b));
  if (problem.bias) {
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    const void* placeholder = device_.step();  // the choice of an algorithm asks for a pointer; run() sets the real one
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, placeholder);
  }
  a_.reset(problem.transpose_a ? layout(type, problem.inner, problem.rows) : layout(type, problem.rows, problem.inner));
  b_.reset(problem.transpose_b ? layout(type, problem.columns, problem.inner)
                               : layout(type, problem.inner, problem.columns));
  d_.reset(layout(problem.float_result ? CUDA_R_32F : type, problem.rows, problem.columns));
}

void Matmul::choose(bool deterministic) {
  cublasLtMatmulPreference_t created = nullptr;
  MRMF_CUBLAS(cublasLtMatmulPreferenceCreate(&created));
  const Preference preference(created);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, device_.settings().workspace);
  constexpr std::uint32_t alignment = 16;  // of layers' places in the arenas, and of stored activations
  for (const auto operand : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, operand, alignment);
  // In-place reduction of split sums uses atomics, whose order differs from run to run.
  if (deterministic)
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  MRMF_CUBLAS(cublasLtMatmulAlgoGetHeuristic(device_.cublas(), product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                             preference.get(), 1, &best, &found));
  MRMF_CHECK(found > 0 && best.state == CUBLAS_STATUS_SUCCESS, "cuBLASLt has no algorithm for this product");
  algorithm_ = best.algo;
  workspace_ = best.workspaceSize;
}

void Matmul::run(const void* a, const void* b, const void* bias, void* d) {
  if (bias_) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1, zero = 0;
  MRMF_CUBLAS(cublasLtMatmul(device_.cublas(), product_.get(), &one, a, a_.get(), b, b_.get(), &zero, d, d_.get(), d,
                             d_.get(), &algorithm_, device_.scratch(Device::Scratch::workspace), workspace_,
                             device_.stream()));
}

}  // namespace mrmf::cuda
