#include "src/cli/plan_sums.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/backend.hpp"
#include "layers/network.hpp"
#include "src/plan/resolve_labels.hpp"
#include "src/run/model_file.hpp"
#include "src/training/momenta.hpp"
#include "src/training/run_rules.hpp"
#include "src/training/sum_coding.hpp"

namespace mrmf {
namespace {

std::string megabytes(double bytes) { return fmt::format("{:.3g} MB", 1e-6 * bytes); }

}  // namespace

std::vector<PlannedSum> planned_sums(const Config& config, const Plan& plan, const Shape& sample, int ranks) {
  if (ranks <= 1 || plan.shares_samples() || std::ranges::any_of(plan.stages, &Stage::at_once)) return {};
  const bool shards = shard_by_shard(config, config.run.device != Device::cuda);
  const auto backend = make_reference_backend();
  std::vector<PlannedSum> planned;
  for (const Phase& phase : plan.phases()) {
    const auto same = [&](const PlannedSum& sum) {
      return sum.resolution == phase.resolution && sum.sums == phase.sums;
    };
    if (std::ranges::any_of(planned, same)) continue;
    const Network network(*backend, network_settings(config, plan, sample, phase.resolution));
    const double values = parameter_count(network);
    const int workers = shards && !phase.sums.adds_plainly() ? config.data.shards / ranks : 1;
    require_averaged_tensors(phase.sums.momenta, network);
    planned.push_back({phase.resolution, phase.sums, sum_bytes(phase.sums.communication, values, ranks, workers),
                       sum_bytes(Communication::fp32, values, ranks),
                       sum_bytes(Communication::fp32, averaged_count(phase.sums.momenta, network), ranks)});
  }
  return planned;
}

std::string sums_text(const std::vector<PlannedSum>& sums, const Plan& plan, int ranks) {
  if (sums.empty()) return "";
  std::vector<std::string> each;
  for (const PlannedSum& sum : sums) {
    std::string text = fmt::format("{} in {}", megabytes(sum.sent), to_string(sum.sums.communication));
    if (sums.size() > 1) text += " at " + resolution_text(sum.resolution, plan.last.axes);
    if (sum.sent != sum.plain) text += fmt::format(" (fp32: {})", megabytes(sum.plain));
    if (sum.momenta > 0) text += fmt::format(", and {} when momenta are averaged", megabytes(sum.momenta));
    each.push_back(text);
  }
  const bool chooses = std::ranges::any_of(
      sums, [](const PlannedSum& sum) { return sum.sums.communication == Communication::automatic; });
  return fmt::format("sums: each of {} ranks sends in a step {}{}\n", ranks, fmt::join(each, "; "),
                     chooses ? "; auto is counted as fp32, until training has measured" : "");
}

nlohmann::json sums_json(const std::vector<PlannedSum>& sums, const Plan& plan) {
  nlohmann::json all = nlohmann::json::array();
  for (const PlannedSum& sum : sums)
    all.push_back({{"resolution", factors(sum.resolution, plan.last.axes)},
                   {"communication", to_string(sum.sums.communication)},
                   {"sent_bytes", sum.sent},
                   {"fp32_bytes", sum.plain},
                   {"momenta_bytes", sum.momenta}});
  return all;
}

}  // namespace mrmf
