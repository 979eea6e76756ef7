// The area under the ROC curve, exact on any number of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tensor.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// For each of several classes, the scores of what is of the class and of what is not. The area is the share of pairs,
/// one of each, in which the former has the larger score; equal scores count one half. It is counted in whole numbers,
/// so it is the same for any order and any ranks. Takes four bytes for each score.
class RankedScores {
 public:
  explicit RankedScores(Index classes) : classes_(static_cast<std::size_t>(classes)) {}

  void add(Index c, float score, bool is_of_class);
  /// Takes over what another has, which is empty then.
  void take(RankedScores& other);
  void clear();
  /// Makes the areas those of all ranks' scores, on each of them. Collective. Ranks tell each other the scores of the
  /// smaller side alone.
  void sum(Comm& team);

  /// NaN where one of the sides is empty.
  double area(Index c) const;
  bool empty() const { return classes_.empty(); }

 private:
  struct Sides {
    std::vector<float> yes{}, no{};
    // After sum(): of all ranks. Pairs count twice where the yes is larger, and once where both are equal.
    std::int64_t all_yes = 0, all_no = 0, pairs = 0;
    bool summed = false;
  };
  std::vector<Sides> classes_;
};

}  // namespace mrmf
