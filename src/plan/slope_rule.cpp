#include "src/plan/slope_rule.hpp"

#include <algorithm>
#include <cmath>

namespace mrmf {

int probe_half_steps(double share, int steps) {
  return std::clamp(static_cast<int>(std::lround(share * steps / 2)), 1, std::max(1, steps / 2));
}

bool pays_no_more(const std::vector<ProbeRecord>& probes) {
  if (probes.size() < 2) return false;
  const ProbeRecord &before = probes[probes.size() - 2], &now = probes.back();
  const double coarse = (before.end - now.end) / (now.gflop - before.gflop);
  const double fine = (now.halfway - now.end) / now.probe_gflop;
  return coarse < fine;
}

}  // namespace mrmf
