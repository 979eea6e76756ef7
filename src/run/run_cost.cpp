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

// `flop`: one sample's forward.
double statistics_flop(const Config& config, const RunSize& size, const Phase& phase, double flop) {
  if (!takes_statistics(config)) return 0;
  const int times = phase.stop.ends_by_loss() ? phase.stop.epochs : 1;
  return times * Steps(size, phase).rows(config.training.precise_batch_norm) * flop;
}

// Probes after a coarse phase's epochs train the first steps of the last phase, and validate twice.
double probes_flop(const Config& config, const RunSize& size, const Phase& coarse, const Phase& last, double flop) {
  if (coarse.stop.probe_epochs == 0) return 0;
  const Steps steps(size, last);
  const int half = probe_half_steps(config.method.probe, static_cast<int>(steps.count));
  const double statistics =
      takes_statistics(config) ? steps.rows(std::min(config.training.precise_batch_norm, kProbeBatches)) : 0;
  const int probes = (coarse.stop.epochs - 1) / coarse.stop.probe_epochs;
  return probes * (2 * (size.validation + statistics) + 3 * steps.rows(2 * half)) * flop;
}

}  // namespace

bool takes_statistics(const Config& config) {
  return config.training.precise_batch_norm > 0 && std::ranges::any_of(config.model.layers, [](const LayerSpec& layer) {
           return layer.kind == LayerKind::batch_norm;
         });
}

RunCost run_cost(const Config& config, const Plan& plan, const Shape& sample, const std::optional<RunSize>& size) {
  RunCost cost{.epochs = training_cost(config, plan, sample)};
  const std::vector<Phase> phases = plan.phases();
  if (!size) {
    cost.without_statistics = takes_statistics(config);
    cost.without_probes = std::ranges::any_of(phases, [](const Phase& p) { return p.stop.probe_epochs > 0; });
    return cost;
  }
  const double epoch = (3 * size->training + size->validation) * full_flop(config, plan, sample);
  const std::vector<double> flop = phase_flop(config, plan, sample);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    cost.statistics += statistics_flop(config, *size, phases[i], flop[i]) / epoch;
    cost.probes += probes_flop(config, *size, phases[i], plan.last, flop.back()) / epoch;
  }
  cost.epochs += cost.statistics + cost.probes;
  return cost;
}

}  // namespace mrmf
