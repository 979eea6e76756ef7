#include "src/training/objective.hpp"

#include <utility>
#include <vector>

#include "src/training/batch_sampler.hpp"

namespace mrmf {

namespace {

// A mean over positions that count alike is the sum of the blocks' shares. Others would need sums within a sample.
void require_sums_of_blocks(const TrainingConfig& training, const Model& model) {
  if (model.output().spatial == model.network().output().spatial) return;
  if (training.loss.weight(LossKind::dice) > 0)
    throw ConfigError(
        "run.grid: a dice loss of outputs with positions cannot be shared among ranks; use cross_entropy "
        "or binary_cross_entropy, or remove run.grid");
  if (training.ignore)
    throw ConfigError(
        "run.grid: with training.ignore, blocks of outputs with positions may have different numbers of labels, which "
        "their mean cannot tell; remove one of them");
}

}  // namespace

Objective::Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
                     const Extent& resolution)
    : backend_(backend),
      resolution_(resolution),
      target_channels_(mrmf::target_channels(store.target(resolution), model.network().output())),
      loss_(backend.loss(training.loss, model.output(), target_channels_)),
      metric_(metric_of(training, model.output())),
      sums_(training.loss.task(), model.output(), target_channels_) {
  require_sums_of_blocks(training, model);
}

// A device waits here for each batch: which output is the largest is found on the host.
void Objective::add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids) {
  if (!metric_ || !model.execution().counts) return;
  const ConstTensor y = model.output(std::ssize(ids));
  std::vector<float> outputs(static_cast<std::size_t>(y.shape.count()));
  backend_.read_activation(y, outputs);
  const Shape target = store.target(resolution_).rows(std::ssize(ids));
  std::vector<float> targets(static_cast<std::size_t>(target.count()));
  store.gather_labels(resolution_, ids, targets);
  if (const Box& box = model.execution().output_box; box.count != model.network().output().spatial) {
    std::vector<float> own(ids.size() * static_cast<std::size_t>(product(box.count) * target.channels));
    take_box({target, targets}, box, own);
    targets = std::move(own);
  }
  sums_.add(outputs, targets);
}

std::optional<MetricValue> Objective::metric() const {
  if (!metric_) return {};
  return MetricValue{*metric_, sums_.value(*metric_)};
}

}  // namespace mrmf
