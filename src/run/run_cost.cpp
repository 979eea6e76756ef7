#include "src/run/run_cost.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/run/run_log.hpp"

namespace mrmf {
namespace {

// The training data in the steps of a phase: of almost equal sizes, as io/rows/sample_order.hpp has them.
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

namespace {

// The mean of the last few. A phase's first epoch also builds and fuses models, so it counts only while it is alone.
std::optional<double> seconds_per_epoch(const std::vector<EpochRecord>& epochs) {
  constexpr std::size_t most = 5;
  if (epochs.empty()) return {};
  const std::size_t count = std::min(most, std::max<std::size_t>(epochs.size() - 1, 1));
  double sum = 0;
  for (const EpochRecord& epoch : std::span(epochs).last(count)) sum += epoch.seconds;
  return sum / static_cast<double>(count);
}

const PhaseHistory* find(const std::vector<PhaseHistory>& past, int stage, Role role) {
  const auto found = std::ranges::find_if(
      past, [&](const PhaseHistory& p) { return p.record.stage == stage && p.record.role == role; });
  return found == past.end() ? nullptr : &*found;
}

// What epochs of the same resolution and batch took on as many ranks, the latest first.
std::optional<double> seconds_of_alike(const std::vector<PhaseHistory>& past, const PhaseWork& phase, int ranks) {
  for (auto p = past.rbegin(); p != past.rend(); ++p) {
    if (p->epochs.empty()) continue;
    const EpochRecord& last = p->epochs.back();
    if (last.resolution == phase.resolution && last.batch == phase.batch && last.ranks == ranks)
      return seconds_per_epoch(p->epochs);
  }
  return {};
}

// Seconds of one rank per GFLOP, of the latest phase that tells.
std::optional<double> rank_seconds_per_gflop(const std::vector<PhaseHistory>& past) {
  for (auto p = past.rbegin(); p != past.rend(); ++p) {
    const std::optional<double> seconds = seconds_per_epoch(p->epochs);
    if (seconds && p->epochs.back().gflop > 0) return *seconds * p->epochs.back().ranks / p->epochs.back().gflop;
  }
  return {};
}

}  // namespace

std::vector<PhaseWork> phase_work(const Config& config, const Plan& plan, const Shape& sample,
                                  const EpochSamples& samples) {
  const std::vector<Phase> phases = plan.phases();
  const std::vector<double> flop = phase_flop(config, plan, sample);
  const auto passes = static_cast<double>(3 * samples.training + samples.validation);
  std::vector<PhaseWork> work;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const Phase& p = phases[i];
    const bool at_once = p.role == Role::dense && plan.stages[static_cast<std::size_t>(p.stage) - 1].at_once;
    work.push_back(
        {p.stage, p.role, p.resolution, p.batch, p.stop.epochs, p.stop.early(), at_once, 1e-9 * passes * flop[i]});
  }
  return work;
}

std::string time_left_text(const TimeLeft& left) {
  const auto part = [](const char* name, double seconds, bool at_most) {
    return fmt::format("{} {}{}", name, at_most ? "at most " : "", duration_text(seconds));
  };
  const std::string run = part("run", left.run, left.run_at_most);
  return left.last_phase || left.phase == 0 ? run : part("phase", left.phase, left.phase_at_most) + ", " + run;
}

std::optional<TimeLeft> TimeEstimate::left(const std::vector<PhaseHistory>& past, const RunPosition& now) const {
  const auto current =
      std::ranges::find_if(phases_, [&](const PhaseWork& p) { return p.stage == now.stage && p.role == now.role; });
  if (current == phases_.end()) return {};
  const PhaseHistory* own = find(past, now.stage, now.role);
  std::optional<double> rate = rank_seconds_per_gflop(past);
  std::optional<double> epoch = own ? seconds_per_epoch(own->epochs) : std::nullopt;
  if (!epoch) epoch = now.epoch_seconds;
  if (!epoch && rate) epoch = *rate * current->gflop / now.ranks;
  if (!epoch) return {};
  if (current->gflop > 0) rate = *epoch * now.ranks / current->gflop;

  TimeLeft left;
  left.phase = std::max(0.0, current->epochs - now.epochs) * *epoch;
  left.run = left.phase;
  left.phase_at_most = left.run_at_most = current->early && left.phase > 0;
  left.last_phase = current + 1 == phases_.end();
  for (auto next = current + 1; next != phases_.end(); ++next) {
    if (next->at_once && next->stage == now.stage) continue;  // the other team is about as long under way
    std::optional<double> seconds = seconds_of_alike(past, *next, ranks_);
    if (!seconds && rate) seconds = *rate * next->gflop / ranks_;
    if (!seconds) return {};
    left.run += next->epochs * *seconds;
    left.run_at_most = left.run_at_most || next->early;
  }
  return left;
}

}  // namespace mrmf
