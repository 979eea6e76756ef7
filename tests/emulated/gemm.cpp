#include "tests/emulated/gemm.hpp"

namespace mrmf::emulated {

// Two instruction sets, chosen when the program starts: tests train networks through these loops.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define MRMF_EMULATED_CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define MRMF_EMULATED_CLONES
#endif

MRMF_EMULATED_CLONES
void add_rows_times(const double* const* rows, const double* b, std::size_t inner, std::size_t outer, double* out) {
  double* __restrict__ out0 = out;
  double* __restrict__ out1 = out + outer;
  double* __restrict__ out2 = out + 2 * outer;
  double* __restrict__ out3 = out + 3 * outer;
  for (std::size_t i = 0; i < inner; ++i) {
    const double a0 = rows[0][i], a1 = rows[1][i], a2 = rows[2][i], a3 = rows[3][i];
    const double* __restrict__ bi = b + i * outer;
    for (std::size_t j = 0; j < outer; ++j) {
      out0[j] += a0 * bi[j];
      out1[j] += a1 * bi[j];
      out2[j] += a2 * bi[j];
      out3[j] += a3 * bi[j];
    }
  }
}

MRMF_EMULATED_CLONES
void add_outer_products(const double* const* rows, const double* const* b, std::size_t inner, std::size_t outer,
                        double* out) {
  const double* __restrict__ b0 = b[0];
  const double* __restrict__ b1 = b[1];
  const double* __restrict__ b2 = b[2];
  const double* __restrict__ b3 = b[3];
  for (std::size_t i = 0; i < inner; ++i) {
    const double a0 = rows[0][i], a1 = rows[1][i], a2 = rows[2][i], a3 = rows[3][i];
    double* __restrict__ to = out + i * outer;
    for (std::size_t j = 0; j < outer; ++j) to[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j];
  }
}

}  // namespace mrmf::emulated
