// Rows that stay together, shared out over the parts of a split or over folds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

/// Rows that stay together: those of one subject, or a single one.
struct RowCluster {
  std::uint64_t random_key = 0;  ///< groups are shared out in the order of these
  Index rows = 0;                ///< of all classes
  std::vector<std::pair<std::int32_t, Index>>
      class_rows{};  ///< classes and their rows; empty where there are no classes
};

/// Which part each group goes to. Shares (above 0, with a sum of 1) are of rows, and of the rows of every class, as
/// near as moves of single groups bring them: groups come in random order, whatever their size, each to the part that
/// lacks most, and then go to others that they suit better. Every part gets a group. requires: as many groups as parts.
/// A function of its arguments alone.
std::vector<std::size_t> assign_groups(const std::vector<RowCluster>& groups, const std::vector<double>& shares);

}  // namespace mrmf
