// cuBLASLt's products against plain loops.
#include <cublasLt.h>

#include <cmath>

#include "tests/emulated/test_support.hpp"

namespace {

constexpr int kM = 5, kN = 7, kK = 3;

struct Case {
  bool ta, tb;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  std::uint32_t alignment = 256;
  int a_offset = 0;
};

/// Column-major op(A) (kM x kK), op(B) (kK x kN), D (kM x kN), C = D.
struct Problem {
  DeviceFloats a{random_floats(kM * kK + 1, 1)}, b{random_floats(kK * kN, 2)}, d{random_floats(kM * kN, 3)};
  DeviceFloats bias{random_floats(16, 4)};
  float at_a(const Case& c, int m, int k) const {
    return a.values()[static_cast<std::size_t>(c.a_offset + (c.ta ? m * kK + k : k * kM + m))];
  }
  float at_b(const Case& c, int k, int n) const {
    return b.values()[static_cast<std::size_t>(c.tb ? k * kN + n : n * kK + k)];
  }
};

cublasStatus_t multiply(Problem& p, const Case& c, float alpha, float beta) {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, d;
  cublasLtMatmulPreference_t preference = nullptr;
  REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(cublasLtMatmulDescInit(&desc, c.compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
  const cublasOperation_t ta = c.ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb = c.tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, sizeof ta);
  cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, sizeof tb);
  cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &c.epilogue, sizeof c.epilogue);
  void* bias = p.bias.get();
  cublasLtMatmulDescSetAttribute(&desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  cublasLtMatrixLayoutInit(&a, CUDA_R_32F, c.ta ? kK : kM, c.ta ? kM : kK, c.ta ? kK : kM);
  cublasLtMatrixLayoutInit(&b, CUDA_R_32F, c.tb ? kN : kK, c.tb ? kK : kN, c.tb ? kN : kK);
  cublasLtMatrixLayoutInit(&d, CUDA_R_32F, kM, kN, kM);
  REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &c.alignment, 4);
  cublasLtMatmulHeuristicResult_t found;
  int count = 0;
  REQUIRE(cublasLtMatmulAlgoGetHeuristic(handle, &desc, &a, &b, &d, &d, preference, 1, &found, &count) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(count == 1);
  CHECK(found.workspaceSize == 0);  // none was allowed
  TestStream stream;
  const cublasStatus_t status = cublasLtMatmul(handle, &desc, &alpha, p.a.get() + c.a_offset, &a, p.b.get(), &b, &beta,
                                               p.d.get(), &d, p.d.get(), &d, &found.algo, nullptr, 0, stream);
  stream.synchronize();
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtDestroy(handle);
  return status;
}

}  // namespace

TEST_CASE("products with every transposition, alpha, beta and bias") {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      Problem p;
      const Case c{ta, tb, CUBLASLT_EPILOGUE_BIAS};
      const auto before = p.d.values(), bias = p.bias.values();
      REQUIRE(multiply(p, c, 2.0f, 0.5f) == CUBLAS_STATUS_SUCCESS);
      const auto result = p.d.values();
      for (int m = 0; m < kM; ++m)
        for (int n = 0; n < kN; ++n) {
          const auto at = static_cast<std::size_t>(n * kM + m);
          double sum = 0;
          for (int k = 0; k < kK; ++k) sum += double(p.at_a(c, m, k)) * double(p.at_b(c, k, n));
          // One rounding to float of values below 10.
          CHECK(double(result[at]) ==
                doctest::Approx(2 * sum + 0.5 * double(before[at]) + double(bias[static_cast<std::size_t>(m)]))
                    .epsilon(1e-6));
        }
    }
}

TEST_CASE("bias gradients are sums over the inner axis of A or B") {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    Problem p;
    const Case c{true, false, epilogue};
    const bool of_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
    REQUIRE(multiply(p, c, 1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
    const auto gradient = p.bias.values();
    for (int i = 0; i < (of_a ? kM : kN); ++i) {
      double sum = 0;
      for (int k = 0; k < kK; ++k) sum += double(of_a ? p.at_a(c, i, k) : p.at_b(c, k, i));
      CHECK(double(gradient[static_cast<std::size_t>(i)]) == doctest::Approx(sum).epsilon(1e-6));
    }
  }
}

TEST_CASE("TF32 rounds its inputs to ten bits of mantissa") {
  Problem exact, rounded;
  REQUIRE(multiply(exact, {false, false}, 1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  Case tf32{false, false};
  tf32.compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  REQUIRE(multiply(rounded, tf32, 1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  double largest = 0;
  const auto a = exact.d.values(), b = rounded.d.values();
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
  CHECK(largest > 1e-6);              // more than float's own rounding
  CHECK(largest < 2 * kK * 0x1p-11);  // every input is off by 2^-11 of itself at most, and all are below 1
}

TEST_CASE("a matrix less aligned than the heuristic was told is refused") {
  Problem p;
  Case c{false, false};
  c.a_offset = 1;
  CHECK(multiply(p, c, 1.0f, 0.0f) == CUBLAS_STATUS_INVALID_VALUE);
  c.alignment = 4;
  CHECK(multiply(p, c, 1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
}
