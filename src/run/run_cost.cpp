#include "src/run/run_cost.hpp"

#include <algorithm>
#include <cmath>

#include "src/plan/slope_rule.hpp"

namespace mrmf {
namespace {

// The training data in the steps of a phase: of almost equal sizes, as io/sample_order.hpp has them.
struct Steps {
  double samples = 0, count = 1;

  Steps(const RunSize& size, const Phase& phase) : samples(size.training) {
    const double groups = std::max<double>(1, static_cast<double>(size.ranks / product(phase.grid)));
    count = std::max(1.0, std::ceil(samples / (phase.batch * groups)));
  }
  double rows(double steps) const { return samples * std::min(1.0, steps / count); }
};

// Operations of one sample's forward in a phase's network.
struct Arithmetic {
  double flop = 0;
  bool has_statistics = false;
};

Arithmetic arithmetic(const Config& config, const Plan& plan, const Shape& sample, const Phase& phase) {
  const auto backend = make_reference_backend();
  const Network network(*backend, network_settings(config, plan, sample, phase.resolution));
  return {network.flop(), network.state_size() > 0};
}

double statistics_flop(const Config& config, const RunSize& size, const Phase& phase, const Arithmetic& of) {
  if (!of.has_statistics) return 0;
  const int times = phase.stop.ends_by_loss() ? phase.stop.epochs : 1;
  return times * Steps(size, phase).rows(config.training.precise_batch_norm) * of.flop;
}

// Looks after a coarse phase's epochs train the first steps of the last phase, and validate twice.
double looks_flop(const Config& config, const RunSize& size, const Phase& coarse, const Phase& last,
                  const Arithmetic& of) {
  if (coarse.stop.look_epochs == 0) return 0;
  const Steps steps(size, last);
  const int half = probe_half_steps(config.method.probe, static_cast<int>(steps.count));
  const double batches = std::min(config.training.precise_batch_norm, kLookBatches);
  const double statistics = of.has_statistics ? steps.rows(batches) : 0;
  const int looks = (coarse.stop.epochs - 1) / coarse.stop.look_epochs;
  return looks * (2 * (size.validation + statistics) + 3 * steps.rows(2 * half)) * of.flop;
}

}  // namespace

RunCost run_cost(const Config& config, const Plan& plan, const Shape& sample, const std::optional<RunSize>& size) {
  RunCost cost{.epochs = training_cost(config, plan, sample)};
  const double epoch = size ? (3 * size->training + size->validation) * full_flop(config, plan, sample) : 1;
  const std::vector<Phase> phases = plan.phases();
  const Arithmetic last = arithmetic(config, plan, sample, plan.last);
  for (const Phase& phase : phases) {
    const Arithmetic own = phase.last() ? last : arithmetic(config, plan, sample, phase);
    const bool statistics = own.has_statistics && config.training.precise_batch_norm > 0;
    if (!size) {
      cost.without_statistics = cost.without_statistics || statistics;
      cost.without_looks = cost.without_looks || phase.stop.look_epochs > 0;
      continue;
    }
    if (statistics) cost.statistics += statistics_flop(config, *size, phase, own) / epoch;
    cost.looks += looks_flop(config, *size, phase, plan.last, last) / epoch;
  }
  cost.epochs += cost.statistics + cost.looks;
  return cost;
}

}  // namespace mrmf
