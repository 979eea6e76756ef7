// One of several equal parts of a data set's rows, and the rows of it that are held out from training.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// A part of the rows that a choice (io/rows/row_choice.hpp) has left.
struct RowPiece {
  int of = 1, number = 0;  ///< this one of so many parts, counted from 0
  double held_out = 0;     ///< share of the part's rows that does not train
  bool held = false;       ///< those rows are meant, and not the others
  std::uint64_t seed = 1;
  bool all() const { return of == 1 && held_out == 0; }
  bool operator==(const RowPiece&) const = default;
};

/// Those of `rows`, in their order. Which part a row is in, and whether it is held out, depends on the seed and on all
/// rows; parts differ by one row at most. With a share to hold out, both sides have a row where there are two.
std::vector<Index> rows_of_piece(const RowPiece& piece, std::vector<Index> rows);

}  // namespace mrmf
