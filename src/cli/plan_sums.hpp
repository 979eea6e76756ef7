// What `mrmf plan` says of sums over ranks: the bytes that each rank sends in a step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

/// Of the phases of a plan that have one resolution and one way, as the records will count it
/// (EpochRecord::sent_bytes).
struct PlannedSum {
  Extent resolution{1, 1, 1};
  SumSettings sums{};
  double sent = 0;     ///< by the configured way
  double plain = 0;    ///< in float32
  double momenta = 0;  ///< whenever momenta are averaged; 0: they never are
};

/// Empty for one rank, and where ranks share samples or train in teams. ConfigError for momenta of parameters that the
/// network does not have.
std::vector<PlannedSum> planned_sums(const Config& config, const Plan& plan, const Shape& sample, int ranks);

std::string sums_text(const std::vector<PlannedSum>& sums, const Plan& plan, int ranks);
nlohmann::json sums_json(const std::vector<PlannedSum>& sums, const Plan& plan);

}  // namespace mrmf
