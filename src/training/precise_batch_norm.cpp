#include "src/training/precise_batch_norm.hpp"

#include <algorithm>

#include "kernels/errors.hpp"
#include "src/training/training_step.hpp"

namespace mrmf {
namespace {

// The running averages of one batch alone, by a forward in training.
void forward_in_training(PhaseContext& context, const EpochSteps& epoch, std::size_t k, const StepContext& step) {
  context.backend().begin(step);
  const Feed::Batch batch = context.batches.training.batch(step);
  if (context.replicas)
    context.replicas->recalibrate(step, shard_rows(epoch.order, k), batch);
  else
    context.model().forward(step, batch.x);
}

Index take_statistics(PhaseContext& context, const EpochSteps& epoch, int batches) {
  PreciseBatchNorm precise(context.backend(), context.model(), context.model_state.network_settings.layers);
  if (batches == 0 || !precise.any()) return 0;
  EpochOrder order = epoch.order;
  order.steps.resize(std::min(order.steps.size(), static_cast<std::size_t>(batches)));
  context.batches.training.expect(context.session.sampler.in_micro_batches(order));
  for (std::size_t k = 0; k < order.steps.size(); ++k)
    for (int micro_batch = 0; micro_batch < context.session.config.accumulate; ++micro_batch) {
      const StepContext step = micro_batch_step(context, epoch, k, micro_batch);
      context.load(context.batches.training, step.ids);
      const Timer timer;
      precise.before();
      forward_in_training(context, epoch, k, step);
      precise.after();
      context.session.clock.time().compute += timer.seconds();
    }
  precise.finish();
  return epoch.rows(0, order.steps.size());
}

}  // namespace

Index recalibrate_batch_norms(PhaseContext& context, const EpochSteps& epoch, int batches) {
  const Index rows = take_statistics(context, epoch, batches);
  if (!context.local_statistics()) return rows;
  const Timer timer;
  average_state(context.backend(), context.model(), context.session.ctx.team);
  context.session.clock.time().communication += timer.seconds();
  return rows;
}

PreciseBatchNorm::PreciseBatchNorm(Backend& backend, Model& model, const std::vector<LayerSpec>& layers)
    : backend_(backend), model_(model), momenta_(model.state().size()), sums_(momenta_.size()), read_(momenta_.size()) {
  const std::vector<LayerEntry>& entries = model.network().entries();
  MRMF_CHECK(entries.size() == layers.size(), "another network's layers");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto first = momenta_.begin() + entries[i].state.first;
    std::fill(first, first + entries[i].state.count, layers[i].momentum);
  }
}

bool PreciseBatchNorm::any() const { return !momenta_.empty(); }

// From zero, a running average becomes momentum * the batch's own statistics.
void PreciseBatchNorm::before() { backend_.fill(model_.state(), 0); }

void PreciseBatchNorm::after() {
  backend_.read(model_.state(), read_);
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (momenta_[i] > 0) sums_[i] += read_[i] / momenta_[i];
  ++batches_;
}

void PreciseBatchNorm::finish() {
  MRMF_CHECK(batches_ > 0, "statistics of no batch");
  for (std::size_t i = 0; i < sums_.size(); ++i) read_[i] = static_cast<float>(sums_[i] / batches_);
  backend_.write(read_, model_.state());
}

}  // namespace mrmf
