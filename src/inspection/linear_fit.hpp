// How well some numbers tell others: a linear fit, judged on rows that it was not fitted to.
#pragma once

#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Numbers in rows, one row after the other.
struct Table {
  Index rows = 0, columns = 0;
  std::vector<double> values{};
  double& at(Index row, Index column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  double at(Index row, Index column) const { return values[static_cast<std::size_t>(row * columns + column)]; }
};

/// The share of the variance of `y`, over all of its columns together, that a ridge regression on the columns of `x`
/// leaves unexplained in five-fold cross-validation: about 1 where `x` tells nothing. Columns of `x` are brought to one
/// scale, and those that do not change are left out. Of some strengths of the ridge the best one counts. The folds are
/// a function of the number of rows. requires: ten rows or more, as many in both, and a `y` that changes.
double unexplained_share(const Table& x, const Table& y);

}  // namespace mrmf
