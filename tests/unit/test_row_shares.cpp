// Groups of rows, shared out over the parts of a split.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "io/rows/split_column_and_groups.hpp"
#include "kernels/random.hpp"

using namespace mrmf;

namespace {

struct PartSizes {
  double groups = 0, rows = 0;
};

// Groups of 3 to 32 rows in a random order of their own.
std::vector<RowCluster> subjects(std::uint64_t seed) {
  std::vector<RowCluster> groups;
  for (Index rows = 3; rows <= 32; ++rows) groups.push_back({mix(seed, static_cast<std::uint64_t>(rows)), rows});
  return groups;
}

}  // namespace

TEST_CASE("row shares: parts have their shares of rows, of groups of every size, and others for another seed") {
  const std::vector<double> shares{0.7, 0.2, 0.1};
  std::vector<PartSizes> parts(3);
  std::vector<std::vector<std::size_t>> seen;
  constexpr int seeds = 60;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const std::vector<RowCluster> groups = subjects(seed);
    const std::vector<std::size_t> part = assign_groups(groups, shares);
    CHECK(assign_groups(groups, shares) == part);
    std::vector<double> rows(3);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      rows[part[g]] += static_cast<double>(groups[g].rows);
      parts[part[g]].groups += 1;
    }
    for (std::size_t p = 0; p < 3; ++p) {
      CHECK(std::abs(rows[p] - shares[p] * 525) < 16);  // half of the largest group
      parts[p].rows += rows[p];
    }
    seen.push_back(part);
  }
  for (const PartSizes& part : parts) CHECK(std::abs(part.rows / part.groups - 17.5) < 3.5);
  std::ranges::sort(seen);
  CHECK(std::ranges::unique(seen).begin() - seen.begin() > seeds / 2);
}
