#include "io/rows/row_shares.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/errors.hpp"

namespace mrmf {
namespace {

/// What the parts have of all rows and of each class so far, against what they are to have.
class Balance {
 public:
  Balance(const std::vector<RowCluster>& groups, const std::vector<double>& shares) : shares_(shares) {
    for (const RowCluster& group : groups)
      for (const auto& [c, rows] : group.class_rows) classes_ = std::max(classes_, static_cast<std::size_t>(c) + 1);
    totals_.resize(classes_ + 1);
    has_.resize((classes_ + 1) * shares.size());
    for (const RowCluster& group : groups) each(group, [&](std::size_t c, double rows) { totals_[c] += rows; });
  }

  // How much further from its share the part is with the group: less is better. Squares, relative to each class.
  double cost(const RowCluster& group, std::size_t part) const {
    double sum = 0;
    each(group, [&](std::size_t c, double rows) {
      const double lacks = shares_[part] * totals_[c] - has_[part * (classes_ + 1) + c];
      sum += rows * (rows - 2 * lacks) / totals_[c];
    });
    return sum;
  }
  void add(const RowCluster& group, std::size_t part, double sign = 1) {
    each(group, [&](std::size_t c, double rows) { has_[part * (classes_ + 1) + c] += sign * rows; });
  }

 private:
  // All rows are one more class, the last.
  template <class Visit>
  void each(const RowCluster& group, const Visit& visit) const {
    for (const auto& [c, rows] : group.class_rows) visit(static_cast<std::size_t>(c), static_cast<double>(rows));
    visit(classes_, static_cast<double>(group.rows));
  }

  const std::vector<double>& shares_;
  std::size_t classes_ = 0;
  std::vector<double> totals_, has_;
};

// Moves groups, in their order, to parts that they suit better, until none does. A group that came early met empty
// parts.
void move_to_balance(const std::vector<RowCluster>& groups, const std::vector<std::size_t>& order, Balance& balance,
                     std::vector<std::size_t>& members, std::vector<std::size_t>& part) {
  constexpr int most_rounds = 20;
  if (std::ranges::all_of(groups, [](const RowCluster& group) { return group.rows == 1; })) return;
  bool moved = true;
  for (int round = 0; moved && round < most_rounds; ++round) {
    moved = false;
    for (const std::size_t g : order) {
      if (members[part[g]] == 1) continue;
      balance.add(groups[g], part[g], -1);
      std::size_t best = part[g];
      for (std::size_t p = 0; p < members.size(); ++p)
        if (balance.cost(groups[g], p) < balance.cost(groups[g], best)) best = p;
      balance.add(groups[g], best);
      if (best == part[g]) continue;
      --members[part[g]];
      ++members[best];
      part[g] = best;
      moved = true;
    }
  }
}

}  // namespace

std::vector<std::size_t> assign_groups(const std::vector<RowCluster>& groups, const std::vector<double>& shares) {
  MRMF_CHECK(groups.size() >= shares.size(), "fewer groups than parts");
  std::vector<std::size_t> order(groups.size()), part(groups.size()), members(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const RowCluster &x = groups[a], &y = groups[b];
    return x.random_key != y.random_key ? x.random_key < y.random_key : a < b;
  });
  Balance balance(groups, shares);
  std::size_t left = groups.size(), without = shares.size();
  for (const std::size_t g : order) {
    // The last groups go to parts that have none.
    const bool needed = left-- == without;
    std::size_t best = shares.size();
    double least = 0;
    for (std::size_t p = 0; p < shares.size(); ++p) {
      if (needed && members[p] > 0) continue;
      const double cost = balance.cost(groups[g], p);
      if (best == shares.size() || cost < least) best = p, least = cost;
    }
    part[g] = best;
    without -= members[best]++ == 0 ? 1 : 0;
    balance.add(groups[g], best);
  }
  move_to_balance(groups, order, balance, members, part);
  return part;
}

}  // namespace mrmf
