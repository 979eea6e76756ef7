// What each worker has of its own from step to step: a momentum of its own gradients, for Lion, and what the codes of
// its gradients have left out; and the same of the team's sums. A worker is a rank, or each of a rank's shards where
// these are computed by themselves.
#pragma once

#include <vector>

#include "kernels/backend.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Workers of this rank, of the team; every rank has as many, and those of the first rank come first.
struct WorkerCount {
  int own = 1, all = 1;
  bool operator==(const WorkerCount&) const = default;
};

class WorkerArrays {
 public:
  /// Makes the arrays that these sums need, unless they are there for as many workers. `momentum`: the optimizer's,
  /// which is the first worker's.
  void prepare(Backend& backend, const SumSettings& sums, const WorkerCount& count, Span momentum);

  const WorkerCount& count() const { return count_; }
  /// By own worker, laid out as the parameters; empty where gradients are added.
  const std::vector<Span>& momenta() const { return momenta_; }
  /// Empty without error feedback.
  const std::vector<Span>& residuals() const { return residuals_; }
  /// What codes of the team's sums have left out: on each rank that of the pieces that it adds, and zero elsewhere.
  Span sum_residual() const { return sum_residual_; }

  /// Where a phase begins: every momentum becomes the optimizer's, and nothing is left out.
  void begin(Backend& backend);
  /// All of them, to be kept and written back.
  std::vector<Span> all() const;

 private:
  WorkerCount count_{0, 0};
  std::vector<Arena> arenas_;
  std::vector<Span> momenta_, residuals_;
  Span sum_residual_;
};

}  // namespace mrmf
