// The first steps of a phase, to see what they are worth (method.switch = "slope").
#include <algorithm>

#include "kernels/check.hpp"
#include "src/plan/slope_rule.hpp"
#include "src/training/data_parallel.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {

// Steps of the epoch from where the probe stands to `last`, then the validation loss.
double Trainer::probe_half(ModelState& model_state, const Phase& phase, const Epoch& epoch, std::size_t last,
                           Probe& probe) {
  TrainState& state = probe.state;
  const auto first = static_cast<std::size_t>(state.step);
  expect(epoch, first, phase.batch);
  for (std::size_t k = first; k < last; ++k)
    for (int part = 0; part < config_.accumulate; ++part) train_batch(model_state, phase, epoch, k, part);
  state.loss += add_losses(phase, epoch, first, last);
  state.step = static_cast<Index>(last);
  take_statistics(model_state, phase, epoch, std::min(config_.precise_batch_norm, kLookBatches));
  if (!config_.global_batch_norm && !replicas_) average_state(ctx_.backend, model_state.model, ctx_.team);
  const double rows = static_cast<double>(statistics_rows_ + ctx_.data.validation().shape.samples);
  probe.look_gflop += 1e-9 * rows * model_state.model.network().flop();
  return validate(model_state, phase.batch).loss.value_or(kNoScore);
}

Probe Trainer::probe(ModelState& model_state, const Phase& phase, double share) {
  Probe probe{.state = TrainState(phase)};
  model_state.best = {};
  begin(model_state, phase, probe.state);
  const Epoch epoch{0, sampler_.training(phase, 0), probe.state.rate};
  const auto steps = static_cast<std::size_t>(epoch.steps());
  MRMF_CHECK(steps >= 2, "a probe has two halves");
  const auto half = static_cast<std::size_t>(probe_half_steps(share, static_cast<int>(steps)));
  const auto gflop = [&](std::size_t first, std::size_t last) {
    return 3e-9 * static_cast<double>(epoch.rows(first, last)) * model_state.model.network().flop();
  };
  probe.halfway = probe_half(model_state, phase, epoch, half, probe);
  probe.end = probe_half(model_state, phase, epoch, 2 * half, probe);
  probe.second_gflop = gflop(half, 2 * half);
  probe.training_gflop = gflop(0, 2 * half);
  take_sum_time();
  count_samples(probe.state);
  replicas_.reset();
  complete_moments();
  sharded_.reset();
  return probe;
}

}  // namespace mrmf
