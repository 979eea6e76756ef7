#pragma once
#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/emulated/numbers.hpp"

namespace mrmf::emulated::blas {

/// A refused call of cuBLASLt.
struct Refusal : std::runtime_error {
  Refusal(cublasStatus_t error, const std::string& text) : std::runtime_error(text), status(error) {}
  cublasStatus_t status;
};

inline void require(bool condition, cublasStatus_t status, const std::string& text) {
  if (!condition) throw Refusal(status, text);
}

// What lies inside the vendor's opaque structures.

struct Product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  std::int32_t transa, transb, transc, pointer_mode, bias_type;
  std::uint32_t epilogue;
  void* bias;
};

struct Layout {
  std::int32_t type, order, batches;
  std::uint64_t rows, cols;
  std::int64_t ld;

  std::size_t index(std::size_t row, std::size_t col) const {
    const auto step = static_cast<std::size_t>(ld);
    return order == CUBLASLT_ORDER_COL ? col * step + row : row * step + col;
  }
  Element element() const { return type == CUDA_R_32F ? Element::f32 : Element::bf16; }
  std::size_t extent() const { return (index(rows - 1, cols - 1) + 1) * bytes_of(element()); }
};

struct Preference {
  std::uint64_t workspace;
  std::uint32_t alignment[4];  // of A, B, C, D in bytes
};

struct Algorithm {
  std::uint64_t magic, workspace;
  std::uint32_t alignment[4];
  std::int32_t index;  // in the order in which they are proposed
};
inline constexpr std::uint64_t kAlgorithmMagic = 0x6d726d662d6c74ull;

template <class Inner, class Opaque>
Inner inside(const Opaque* opaque) {
  static_assert(sizeof(Inner) <= sizeof(Opaque));
  require(opaque != nullptr, CUBLAS_STATUS_INVALID_VALUE, "a null descriptor");
  Inner inner;
  std::memcpy(&inner, opaque, sizeof inner);
  return inner;
}

template <class Inner, class Opaque>
void put(Opaque* opaque, const Inner& inner) {
  static_assert(sizeof(Inner) <= sizeof(Opaque));
  require(opaque != nullptr, CUBLAS_STATUS_INVALID_VALUE, "a null descriptor");
  std::memcpy(opaque, &inner, sizeof inner);
}

/// Keeps the refusal's text for MRMF_EMULATED_VERBOSE and gives its status.
cublasStatus_t refused(const Refusal& refusal);

template <class Body>
cublasStatus_t guarded(Body body) {
  try {
    body();
    return CUBLAS_STATUS_SUCCESS;
  } catch (const Refusal& refusal) {
    return refused(refusal);
  }
}

struct Matrices {
  Layout a, b, c, d;
};

/// Shapes, types and options of a product; throws Refusal.
void check(const Product& product, const Matrices& m);

struct Operands {
  float alpha, beta;
  const void *a, *b, *c;
  void* d;
};

/// D = alpha op(A) op(B) + beta C with the epilogue; runs on the emulated device, in its turn.
void multiply(const Product& product, const Matrices& m, const Operands& o);

}  // namespace mrmf::emulated::blas
