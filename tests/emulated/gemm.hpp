#pragma once
#include <cstddef>

namespace mrmf::emulated {

/// Four rows at a time of the two products that convolutions and matrix products are made of, in double.
inline constexpr std::size_t kRows = 4;

/// out[r][j] += sum_i rows[r][i] b[i][j]; `out` is kRows x outer, `b` inner x outer.
void add_rows_times(const double* const* rows, const double* b, std::size_t inner, std::size_t outer, double* out);

/// out[i][j] += sum_r rows[r][i] b[r][j]; `out` is inner x outer, `rows` and `b` are kRows pointers.
void add_outer_products(const double* const* rows, const double* const* b, std::size_t inner, std::size_t outer,
                        double* out);

}  // namespace mrmf::emulated
