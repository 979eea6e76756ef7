#include "src/plan/slope_rule.hpp"

namespace mrmf {

bool pays_no_more(const std::vector<Look>& looks) {
  if (looks.size() < 2) return false;
  const Look &before = looks[looks.size() - 2], &now = looks.back();
  const double coarse = (before.end - now.end) / (now.gflop - before.gflop);
  const double fine = (now.halfway - now.end) / now.probe_gflop;
  return coarse < fine;
}

}  // namespace mrmf
