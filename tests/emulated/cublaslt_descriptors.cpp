// cuBLASLt's handles, descriptors and texts.
#include "tests/emulated/cublaslt_model.hpp"
#include "tests/emulated/failure.hpp"
#include "tests/emulated/machine.hpp"
#include "tests/emulated/settings.hpp"

using namespace mrmf::emulated;
using namespace mrmf::emulated::blas;

struct cublasLtContext {};

namespace {

template <class Value>
void read(Value& value, const void* buffer, size_t size) {
  require(buffer && size == sizeof(Value), CUBLAS_STATUS_INVALID_VALUE, "an attribute of another size");
  std::memcpy(&value, buffer, sizeof value);
}

/// Makes an opaque structure on the heap and initialises it.
template <class Opaque, class Initialise>
cublasStatus_t create(Opaque** made, Initialise initialise) {
  *made = new Opaque{};
  return initialise(*made);
}

const char* text(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "an unknown cuBLAS status";
  }
}

}  // namespace

cublasStatus_t mrmf::emulated::blas::refused(const Refusal& refusal) {
  report("cuBLASLt", refusal.what());
  return refusal.status;
}

extern "C" {

const char* cublasGetStatusName(cublasStatus_t status) { return text(status); }
const char* cublasGetStatusString(cublasStatus_t status) { return text(status); }
const char* cublasLtGetStatusName(cublasStatus_t status) { return text(status); }
const char* cublasLtGetStatusString(cublasStatus_t status) { return text(status); }
size_t cublasLtGetVersion() { return static_cast<size_t>(cublaslt_version()); }
size_t cublasLtGetCudartVersion() { return CUDART_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return guarded([&] {
    try {
      check_devices();
    } catch (const Failure& failure) {
      throw Refusal(CUBLAS_STATUS_NOT_INITIALIZED, failure.what());
    }
    *handle = new cublasLtContext;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t, cublasComputeType_t compute,
                                               cudaDataType_t scale) {
  return guarded([&] {
    put(desc, Product{compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_POINTER_MODE_HOST, -1,
                      CUBLASLT_EPILOGUE_DEFAULT, nullptr});
  });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  return create(desc, [&](auto* made) { return cublasLtMatmulDescInit_internal(made, sizeof *made, compute, scale); });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* buffer, size_t size) {
  return guarded([&] {
    Product product = inside<Product>(desc);
    switch (name) {
      case CUBLASLT_MATMUL_DESC_TRANSA: read(product.transa, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_TRANSB: read(product.transb, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_TRANSC: read(product.transc, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_POINTER_MODE: read(product.pointer_mode, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_EPILOGUE: read(product.epilogue, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER: read(product.bias, buffer, size); break;
      case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: read(product.bias_type, buffer, size); break;
      default: throw Refusal(CUBLAS_STATUS_NOT_SUPPORTED, "matmul attribute " + std::to_string(name));
    }
    put(desc, product);
  });
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t, cudaDataType type,
                                                 uint64_t rows, uint64_t cols, int64_t ld) {
  return guarded([&] { put(layout, Layout{type, CUBLASLT_ORDER_COL, 1, rows, cols, ld}); });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  return create(
      layout, [&](auto* made) { return cublasLtMatrixLayoutInit_internal(made, sizeof *made, type, rows, cols, ld); });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t desc, cublasLtMatrixLayoutAttribute_t name,
                                                const void* buffer, size_t size) {
  return guarded([&] {
    Layout layout = inside<Layout>(desc);
    switch (name) {
      case CUBLASLT_MATRIX_LAYOUT_TYPE: read(layout.type, buffer, size); break;
      case CUBLASLT_MATRIX_LAYOUT_ORDER: read(layout.order, buffer, size); break;
      case CUBLASLT_MATRIX_LAYOUT_ROWS: read(layout.rows, buffer, size); break;
      case CUBLASLT_MATRIX_LAYOUT_COLS: read(layout.cols, buffer, size); break;
      case CUBLASLT_MATRIX_LAYOUT_LD: read(layout.ld, buffer, size); break;
      case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: read(layout.batches, buffer, size); break;
      default: throw Refusal(CUBLAS_STATUS_NOT_SUPPORTED, "layout attribute " + std::to_string(name));
    }
    put(desc, layout);
  });
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t) {
  return guarded([&] { put(preference, Preference{0, {256, 256, 256, 256}}); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, [](auto* made) { return cublasLtMatmulPreferenceInit_internal(made, sizeof *made); });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t desc,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* buffer,
                                                    size_t size) {
  return guarded([&] {
    Preference preference = inside<Preference>(desc);
    switch (name) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: read(preference.workspace, buffer, size); break;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: read(preference.alignment[0], buffer, size); break;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: read(preference.alignment[1], buffer, size); break;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: read(preference.alignment[2], buffer, size); break;
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: read(preference.alignment[3], buffer, size); break;
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: {  // the emulated products have one order of summation anyway
        std::uint32_t mask = 0;
        read(mask, buffer, size);
        break;
      }
      default: throw Refusal(CUBLAS_STATUS_NOT_SUPPORTED, "preference attribute " + std::to_string(name));
    }
    put(desc, preference);
  });
}

}  // extern "C"
