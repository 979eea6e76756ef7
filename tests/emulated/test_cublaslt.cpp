// cuBLASLt's products: the precision that is asked for shows, and a broken promise is refused.
#include <cublasLt.h>

#include "tests/emulated/test_support.hpp"

namespace {

constexpr int kSize = 4;

struct Case {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::uint32_t alignment = 256;  ///< of A, as the heuristic is told
  int offset = 0;                 ///< of A from such a place, in floats
};

struct Outcome {
  cublasStatus_t status;
  float first;  ///< element of the product
};

/// Every element of A is 1 + 2^-12, every one of B is 1.
Outcome multiply(const Case& c) {
  const DeviceFloats a(std::vector<float>(kSize * kSize + 1, 1 + 0x1p-12f)), b(std::vector<float>(kSize * kSize, 1.0f)),
      d(kSize * kSize);
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t layout;
  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmulDescInit(&desc, c.compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, kSize, kSize, kSize) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &c.alignment, 4);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  REQUIRE(cublasLtMatmulAlgoGetHeuristic(handle, &desc, &layout, &layout, &layout, &layout, preference, 1, &found,
                                         &count) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 1);
  CHECK(found.workspaceSize == 0);  // none was allowed
  TestStream stream;
  const float alpha = 1.0f, beta = 0.0f;
  const cublasStatus_t status =
      cublasLtMatmul(handle, &desc, &alpha, a.get() + c.offset, &layout, b.get(), &layout, &beta, d.get(), &layout,
                     d.get(), &layout, &found.algo, nullptr, 0, stream);
  synchronize(stream);
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtDestroy(handle);
  return {status, d.values()[0]};
}

}  // namespace

TEST_CASE("TF32 rounds its inputs to ten bits of mantissa") {
  CHECK(multiply({}).first == kSize * (1 + 0x1p-12f));
  CHECK(multiply({.compute = CUBLAS_COMPUTE_32F_FAST_TF32}).first == kSize);
}

TEST_CASE("a matrix less aligned than the heuristic was told is refused") {
  CHECK(multiply({.offset = 1}).status == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply({.alignment = 4, .offset = 1}).status == CUBLAS_STATUS_SUCCESS);
}
