// cublasLtMatmul and its choice of algorithms.
#include <algorithm>
#include <fstream>

#include "tests/emulated/cublaslt_model.hpp"
#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;
using namespace mrmf::emulated::blas;

namespace {

constexpr std::uint64_t kWorkspace = std::uint64_t{1} << 20;

Matrices matrices(cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                  cublasLtMatrixLayout_t d) {
  return {inside<Layout>(a), inside<Layout>(b), inside<Layout>(c), inside<Layout>(d)};
}

void check_pointer(const char* name, const void* pointer, std::size_t bytes, std::uint32_t alignment) {
  require(is_device_memory(pointer, bytes), CUBLAS_STATUS_INVALID_VALUE,
          std::string(name) + " does not lie in device memory with its whole size");
  require(reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0, CUBLAS_STATUS_INVALID_VALUE,
          std::string(name) + " is not aligned to " + std::to_string(alignment) +
              " bytes, which the algorithm was asked for");
}

std::size_t bias_bytes(const Product& product, const Matrices& m) {
  const bool along_columns = product.epilogue == CUBLASLT_EPILOGUE_BGRADB;
  const bool wide = product.bias_type == CUDA_R_32F || (product.bias_type == -1 && m.d.type == CUDA_R_32F);
  return (along_columns ? m.d.cols : m.d.rows) * (wide ? 4 : 2);
}

void check_pointers(const Product& product, const Matrices& m, const Operands& o, const Algorithm& algorithm) {
  check_pointer("A", o.a, m.a.extent(), algorithm.alignment[0]);
  check_pointer("B", o.b, m.b.extent(), algorithm.alignment[1]);
  if (o.beta != 0) check_pointer("C", o.c, m.c.extent(), algorithm.alignment[2]);
  check_pointer("D", o.d, m.d.extent(), algorithm.alignment[3]);
  if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT) check_pointer("the bias", product.bias, bias_bytes(product, m), 2);
}

/// Without a given algorithm cuBLASLt asks its heuristics itself, for the pointers as they are.
Algorithm chosen(const cublasLtMatmulAlgo_t* algo) {
  if (!algo) return {kAlgorithmMagic, 0, {4, 4, 4, 4}, 0};
  const auto algorithm = inside<Algorithm>(algo);
  require(algorithm.magic == kAlgorithmMagic, CUBLAS_STATUS_INVALID_VALUE, "an algorithm that no heuristic gave");
  return algorithm;
}

void trace_algorithm(const Algorithm& algorithm) {
  if (trace_file()) std::ofstream(trace_file(), std::ios::app) << "algorithm " << algorithm.index << '\n';
}

double multiply_adds(const Product& product, const Matrices& m) {
  const std::uint64_t inner = product.transa == CUBLAS_OP_N ? m.a.cols : m.a.rows;
  return static_cast<double>(m.d.rows * m.d.cols) * static_cast<double>(inner);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  return guarded([&] {
    require(handle && results && count && requested > 0, CUBLAS_STATUS_INVALID_VALUE, "nothing to fill in");
    *count = 0;
    require(algorithm_count() > 0, CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm");
    check(inside<Product>(desc), matrices(a, b, c, d));
    const auto wishes = inside<Preference>(preference);
    for (int index = 0; index < algorithm_count() && *count < requested; ++index) {
      const std::uint64_t workspace = index == 0 ? kWorkspace : 0;
      if (workspace > wishes.workspace) continue;
      Algorithm algorithm{kAlgorithmMagic, workspace, {}, index};
      std::copy_n(wishes.alignment, 4, algorithm.alignment);
      cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
      result = {};
      put(&result.algo, algorithm);
      result.workspaceSize = workspace;
      result.state = CUBLAS_STATUS_SUCCESS;
      result.wavesCount = 1;
    }
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_desc, const void* b, cublasLtMatrixLayout_t b_desc,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_desc, void* d,
                              cublasLtMatrixLayout_t d_desc, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  return guarded([&] {
    require(handle && alpha && beta, CUBLAS_STATUS_INVALID_VALUE, "a null handle, alpha or beta");
    const auto product = inside<Product>(desc);
    const Matrices m = matrices(a_desc, b_desc, c_desc, d_desc);
    check(product, m);
    const Algorithm algorithm = chosen(algo);
    const Operands o{*static_cast<const float*>(alpha), *static_cast<const float*>(beta), a, b, c, d};
    check_pointers(product, m, o, algorithm);
    require(workspace_bytes >= algorithm.workspace, CUBLAS_STATUS_INVALID_VALUE,
            "less workspace than the algorithm needs");
    require(algorithm.workspace == 0 || is_device_memory(workspace, algorithm.workspace), CUBLAS_STATUS_INVALID_VALUE,
            "the workspace is no device memory of that size");
    require(algorithm.index >= refused_algorithms(), CUBLAS_STATUS_NOT_SUPPORTED, "this algorithm is refused");
    trace_algorithm(algorithm);
    try {
      enqueue(
          stream,
          [=] {
            if (algorithm.workspace) std::memset(workspace, 0xa5, algorithm.workspace);
            multiply(product, m, o);
            Machine::get().clock.add_products(multiply_adds(product, m) *
                                              (algorithm.index == fast_algorithm() ? 0.1 : 1));
            return true;
          },
          "cuBLASLt product");
    } catch (const Failure& failure) {
      throw Refusal(CUBLAS_STATUS_EXECUTION_FAILED, failure.what());
    }
  });
}

}  // extern "C"
