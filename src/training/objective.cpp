#include "src/training/objective.hpp"

#include <vector>

namespace mrmf {

Objective::Objective(Backend& backend, const TrainingConfig& training, const Shape& output, const SampleStore& store,
                     const Extent& resolution)
    : backend_(backend),
      resolution_(resolution),
      target_channels_(mrmf::target_channels(store.target(resolution), output)),
      loss_(backend.loss(training.loss, output, target_channels_)),
      metric_(metric_of(training, output)),
      sums_(training.loss.task(), output, target_channels_) {}

// A device waits here for each batch: which output is the largest is found on the host.
void Objective::add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids) {
  if (!metric_) return;
  const ConstTensor y = model.output(std::ssize(ids));
  std::vector<float> outputs(static_cast<std::size_t>(y.shape.count()));
  backend_.read_activation(y, outputs);
  std::vector<float> targets(ids.size() * static_cast<std::size_t>(store.target(resolution_).per_sample()));
  store.gather_labels(resolution_, ids, targets);
  sums_.add(outputs, targets);
}

std::optional<MetricValue> Objective::metric() const {
  if (!metric_) return {};
  return MetricValue{*metric_, sums_.value(*metric_)};
}

}  // namespace mrmf
