#include <algorithm>
#include <array>
#include <vector>

#include "tests/emulated/cublaslt_model.hpp"
#include "tests/emulated/gemm.hpp"

namespace mrmf::emulated::blas {
namespace {

void check_types(const Product& product, const Matrices& m) {
  require(product.scale == CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED, "only float alpha and beta are emulated");
  require(product.compute == CUBLAS_COMPUTE_32F || product.compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
              product.compute == CUBLAS_COMPUTE_32F_FAST_TF32,
          CUBLAS_STATUS_NOT_SUPPORTED, "this compute type is not emulated");
  for (const Layout* each : {&m.a, &m.b, &m.c, &m.d})
    require(each->type == CUDA_R_32F || each->type == CUDA_R_16BF, CUBLAS_STATUS_NOT_SUPPORTED,
            "only float and bfloat16 matrices are emulated");
  require(m.a.type == m.b.type && m.c.type == m.d.type, CUBLAS_STATUS_NOT_SUPPORTED,
          "A and B, and C and D, must have one type each");
  require(m.a.type == CUDA_R_16BF || m.d.type == CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED,
          "float inputs with a bfloat16 result");
  require(m.a.type == CUDA_R_32F || product.compute != CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_STATUS_NOT_SUPPORTED,
          "TF32 computation of bfloat16 inputs");
}

void check_layout(const Layout& layout) {
  require(layout.order == CUBLASLT_ORDER_COL || layout.order == CUBLASLT_ORDER_ROW, CUBLAS_STATUS_NOT_SUPPORTED,
          "only column and row order are emulated");
  require(layout.batches == 1, CUBLAS_STATUS_NOT_SUPPORTED, "batches are not emulated");
  require(layout.rows > 0 && layout.cols > 0, CUBLAS_STATUS_INVALID_VALUE, "an empty matrix");
  const std::uint64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.cols;
  require(layout.ld >= static_cast<std::int64_t>(least), CUBLAS_STATUS_INVALID_VALUE,
          "a leading dimension below the matrix's own");
}

void check_epilogue(const Product& product, const Matrices& m) {
  if (product.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
  require(product.epilogue == CUBLASLT_EPILOGUE_BIAS || product.epilogue == CUBLASLT_EPILOGUE_BGRADA ||
              product.epilogue == CUBLASLT_EPILOGUE_BGRADB,
          CUBLAS_STATUS_NOT_SUPPORTED, "this epilogue is not emulated");
  require(m.d.order == CUBLASLT_ORDER_COL, CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue with row order");
  require(product.bias != nullptr, CUBLAS_STATUS_INVALID_VALUE, "an epilogue without a bias pointer");
  const bool gradient = product.epilogue != CUBLASLT_EPILOGUE_BIAS;
  require(product.bias_type == -1 || product.bias_type == m.d.type || (gradient && product.bias_type == m.a.type),
          CUBLAS_STATUS_NOT_SUPPORTED, "a bias of another type than D");
}

std::vector<double> read(const Layout& layout, const void* data, bool transposed, Rounding rounding) {
  const std::size_t rows = transposed ? layout.cols : layout.rows, cols = transposed ? layout.rows : layout.cols;
  std::vector<double> values(rows * cols);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t at = transposed ? layout.index(c, r) : layout.index(r, c);
      values[r * cols + c] = static_cast<double>(rounded(load(data, at, layout.element()), rounding));
    }
  return values;
}

/// Sums of the rows of op(A) or of the columns of op(B), over the product's inner axis.
void write_bias_gradient(const Product& product, Element element, const std::vector<double>& values, std::size_t rows,
                         std::size_t cols) {
  const bool of_rows = product.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  for (std::size_t i = 0; i < (of_rows ? rows : cols); ++i) {
    double sum = 0;
    for (std::size_t k = 0; k < (of_rows ? cols : rows); ++k)
      sum += of_rows ? values[i * cols + k] : values[k * cols + i];
    store(product.bias, i, element, sum);
  }
}

}  // namespace

void check(const Product& product, const Matrices& m) {
  check_types(product, m);
  for (const Layout* each : {&m.a, &m.b, &m.c, &m.d}) check_layout(*each);
  require(product.pointer_mode == CUBLASLT_POINTER_MODE_HOST && product.transc == CUBLAS_OP_N,
          CUBLAS_STATUS_NOT_SUPPORTED, "alpha and beta on the device, or a transposed C");
  const bool ta = product.transa != CUBLAS_OP_N, tb = product.transb != CUBLAS_OP_N;
  require((ta ? m.a.cols : m.a.rows) == m.d.rows && (tb ? m.b.rows : m.b.cols) == m.d.cols &&
              (ta ? m.a.rows : m.a.cols) == (tb ? m.b.cols : m.b.rows) && m.c.rows == m.d.rows && m.c.cols == m.d.cols,
          CUBLAS_STATUS_INVALID_VALUE, "the shapes of a product do not fit");
  check_epilogue(product, m);
}

void multiply(const Product& product, const Matrices& m, const Operands& o) {
  const Rounding rounding = product.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? Rounding::tf32 : Rounding::none;
  const auto a = read(m.a, o.a, product.transa != CUBLAS_OP_N, rounding);
  const auto b = read(m.b, o.b, product.transb != CUBLAS_OP_N, rounding);
  const std::size_t rows = m.d.rows, cols = m.d.cols, inner = a.size() / rows;
  const Element bias = product.bias_type == -1           ? m.d.element()
                       : product.bias_type == CUDA_R_32F ? Element::f32
                                                         : Element::bf16;
  const std::vector<double> nothing(inner, 0.0);
  std::vector<double> block(kRows * cols);
  for (std::size_t first = 0; first < rows; first += kRows) {
    std::array<const double*, kRows> from;
    for (std::size_t i = 0; i < kRows; ++i) from[i] = first + i < rows ? &a[(first + i) * inner] : nothing.data();
    std::fill(block.begin(), block.end(), 0.0);
    add_rows_times(from.data(), b.data(), inner, cols, block.data());
    for (std::size_t i = 0; i < std::min(kRows, rows - first); ++i)
      for (std::size_t j = 0; j < cols; ++j) {
        double value = static_cast<double>(o.alpha) * block[i * cols + j];
        if (o.beta != 0)
          value += static_cast<double>(o.beta) * static_cast<double>(load(o.c, m.c.index(first + i, j), m.c.element()));
        if (product.epilogue == CUBLASLT_EPILOGUE_BIAS)
          value += static_cast<double>(load(product.bias, first + i, bias));
        store(o.d, m.d.index(first + i, j), m.d.element(), value);
      }
  }
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADA) write_bias_gradient(product, bias, a, rows, inner);
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB) write_bias_gradient(product, bias, b, inner, cols);
}

}  // namespace mrmf::emulated::blas
