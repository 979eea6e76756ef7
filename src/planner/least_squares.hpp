// Fits of times by sums of terms that grow with the work, such as latency + bytes / bandwidth.
#pragma once

#include <vector>

namespace mrmf {

/// A measured time and what each term counts of it.
struct TimedWork {
  std::vector<double> terms;
  double seconds = 0;
};

/// Coefficients of the terms, none below zero, for the least sum of squared relative errors. Empty without
/// measurements. requires: at most eight terms, the same number everywhere; seconds above zero.
std::vector<double> fit_terms(const std::vector<TimedWork>& measured);

}  // namespace mrmf
