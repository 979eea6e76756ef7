#include "src/cli/plan_sums.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/backend.hpp"
#include "layers/network.hpp"
#include "src/plan/labels.hpp"
#include "src/run/model_file.hpp"
#include "src/training/run_rules.hpp"
#include "src/training/sum_coding.hpp"

namespace mrmf {
namespace {

double parameters_of(const Network& network) {
  double count = 0;
  for (const TensorSpan& tensor : parameter_spans(network)) count += static_cast<double>(tensor.count);
  return count;
}

std::string megabytes(double bytes) { return fmt::format("{:.3g} MB", 1e-6 * bytes); }

}  // namespace

std::vector<PlannedSum> planned_sums(const Config& config, const Plan& plan, const Shape& sample, int ranks) {
  if (ranks <= 1 || plan.shares_samples() || std::ranges::any_of(plan.stages, &Stage::at_once)) return {};
  const TrainingConfig& training = config.training;
  const bool shards = shard_by_shard(config, config.run.device != Device::cuda);
  const int workers = shards && !training.adds_plainly() ? config.data.shards / ranks : 1;
  const auto backend = make_reference_backend();
  std::vector<PlannedSum> sums;
  for (const Extent& resolution : plan.resolutions()) {
    const double values = parameters_of({*backend, network_settings(config, plan, sample, resolution)});
    PlannedSum sum{resolution, sum_bytes(training.communication, values, ranks, workers),
                   sum_bytes(Communication::fp32, values, ranks)};
    if (training.momenta.rule == MomentaRule::every || training.momenta.rule == MomentaRule::spaced)
      sum.momenta = sum.plain;
    sums.push_back(sum);
  }
  return sums;
}

std::string sums_text(const std::vector<PlannedSum>& sums, const Config& config, const Plan& plan, int ranks) {
  if (sums.empty()) return "";
  std::vector<std::string> each;
  for (const PlannedSum& sum : sums) {
    std::string text = megabytes(sum.sent);
    if (sums.size() > 1) text += " at " + resolution_text(sum.resolution, plan.last.axes);
    if (sum.sent != sum.plain) text += fmt::format(" (fp32: {})", megabytes(sum.plain));
    if (sum.momenta > 0) text += fmt::format(", and {} when momenta are averaged", megabytes(sum.momenta));
    each.push_back(text);
  }
  return fmt::format("sums: each of {} ranks sends {} in a step; communication {}\n", ranks, fmt::join(each, "; "),
                     to_string(config.training.communication));
}

nlohmann::json sums_json(const std::vector<PlannedSum>& sums, const Plan& plan) {
  nlohmann::json all = nlohmann::json::array();
  for (const PlannedSum& sum : sums)
    all.push_back({{"resolution", factors(sum.resolution, plan.last.axes)},
                   {"sent_bytes", sum.sent},
                   {"fp32_bytes", sum.plain},
                   {"momenta_bytes", sum.momenta}});
  return all;
}

}  // namespace mrmf
