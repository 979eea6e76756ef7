// What the trainer decides and allocates before a step's epochs.
#include "mpi/agreement.hpp"
#include "src/training/trainer.hpp"

namespace mrmf {

// Everything that needs deciding or allocating, so that no step has to.
void Trainer::begin(Learner& learner, const TrainStep& step, const TrainState& state) {
  compare_ranks(learner, state, "at the start of " + place_text(step));
  own_rows_ = 0;
  learner.optimizer.configure(step.optimizer);
  clock_.time().io += at_.data.require(step.resolution);
  at_.backend.forget();
  const Orders::First order = orders_.first(step);
  const Timer timer;
  together(at_.team, [&] {
    train_.emplace(at_.backend, at_.data.train(), step.resolution, step.batch);
    validation_.emplace(at_.backend, at_.data.validation(), step.resolution, step.batch);
  });
  clock_.time().io += timer.seconds();
  record_keys_ = orders_.record_keys(order.training);
  losses_ = at_.backend.allocate(std::ssize(order.training.steps) + std::ssize(order.validation.steps));
  if (at_.lanes) return make_lanes(learner, step, order);
  for (const Index rows : order.rows()) learner.model.prepare(rows);
}

void Trainer::make_lanes(Learner& learner, const TrainStep& step, const Orders::First& order) {
  const Orders::Shards shards = orders_.shards(step);
  LaneSettings settings{.network = learner.network,
                        .loss = config_.loss,
                        .global_batch_norm = config_.global_batch_norm,
                        .own = shards.own,
                        .all = shards.all};
  settings.network.max_rows = shards.most_rows;
  lanes_ = std::make_unique<Lanes>(at_.backend, at_.team, learner.model, settings);
  lanes_->prepare(order.shard_rows());
}

void Trainer::rehearse(const Config& config, const Plan& plan, const TrainStep& step) {
  if (at_.backend.immediate()) return;
  const NetworkSettings settings = network_settings(config, plan, at_.data.shape().sample, step.resolution);
  const Timer looking;
  const Network network(at_.backend, settings);
  const Execution execution = plan_execution(at_.backend, network, {settings, 0, true});
  for (const Index rows : orders_.first(step).rows())
    for (const Unit& unit : execution.units) unit.run->prepare(rows);
  clock_.leave_out(looking.seconds());
}

// Streamed samples are read ahead in this order: what is left of the epoch, and validation.
void Trainer::expect(const Epoch& epoch, std::size_t first, int batch) {
  EpochOrder left = epoch.order;
  left.steps.erase(left.steps.begin(), left.steps.begin() + static_cast<std::ptrdiff_t>(first));
  train_->expect(left);
  validation_->expect(orders_.validation(batch));
}

}  // namespace mrmf
