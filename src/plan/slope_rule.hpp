// When a coarse phase stops paying (method.switch = "slope"): a function of losses and arithmetic alone. No I/O, no
// MPI.
#pragma once

#include <vector>

namespace mrmf {

/// What a coarse model was worth at full resolution: a copy of it was transferred and trained for a short while, as a
/// probe. Losses are of full-resolution validation data, and the same on every rank.
struct ProbeRecord {
  int epoch = 0;           ///< epoch of the coarse phase, after which it was transferred
  double gflop = 0;        ///< gflop of the coarse phase until then, with the probes before
  double halfway = 0;      ///< loss in the middle of the probe, when what the transfer spoilt is mended
  double end = 0;          ///< loss at its end
  double probe_gflop = 0;  ///< gflop of its training from the middle to the end
  bool operator==(const ProbeRecord&) const = default;
};

/// Batch norms' statistics in a probe are of so many batches at most: a probe is one of many, and only compares.
inline constexpr int kProbeBatches = 8;

/// Steps of each half of a probe that takes this share of an epoch of `steps`.
int probe_half_steps(double share, int steps);

/// From the last probe but one to the last, the coarse phase has lowered the loss at the probe's end by less per
/// arithmetic than the second half of the last probe did. One probe alone says nothing.
bool pays_no_more(const std::vector<ProbeRecord>& probes);

}  // namespace mrmf
