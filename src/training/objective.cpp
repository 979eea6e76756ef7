#include "src/training/objective.hpp"

#include <utility>
#include <vector>

#include "src/training/batches.hpp"

namespace mrmf {
namespace {

ScoreSettings scored(const TrainingConfig& training, const Shape& output, Index target_channels,
                     const SampleStore& store) {
  ScoreSettings settings = score_settings(training, output, target_channels, metric_of(training, output));
  if (training.loss.task() == Task::regression) settings.units = store.label_units();
  return settings;
}

}  // namespace

Objective::Objective(Backend& backend, const TrainingConfig& training, Model& model, const SampleStore& store,
                     const Extent& resolution, const std::optional<Shape>& whole)
    : backend_(backend),
      resolution_(resolution),
      target_channels_(mrmf::target_channels(store.target(resolution), model.network().output())),
      loss_(backend.loss(training.loss, model.output(), target_channels_)),
      cut_(model.output().spatial != model.network().output().spatial),
      metric_(metric_of(training, model.output())),
      sums_(scored(training, whole.value_or(model.output()), target_channels_, store)) {}

// Where every rank of a grid has all of the output, there is nothing to add up.
void Objective::run(const StepContext& step, ConstTensor y, ConstTensor targets, Span dy, Span sum) {
  StepContext own = step;
  if (!cut_) own.sample_sum = nullptr;
  loss_->run(own, y, targets, dy, sum);
}

// A device waits here for each batch: which output is the largest is found on the host.
void Objective::add(Model& model, const SampleStore& store, std::span<const std::int64_t> ids) {
  if (!metric_ || !model.execution().counts) return;
  const ConstTensor y = model.output(std::ssize(ids));
  std::vector<float> outputs(static_cast<std::size_t>(y.shape.count()));
  backend_.read_activation(y, outputs);
  const Shape target = store.target(resolution_).with_rows(std::ssize(ids));
  std::vector<float> targets(static_cast<std::size_t>(target.count()));
  store.gather_labels(resolution_, ids, targets);
  if (cut_) {
    const Shape whole = with_positions(target, model.network().output().spatial);
    const Box& box = model.execution().output_box;
    std::vector<float> own(ids.size() * static_cast<std::size_t>(product(box.count) * whole.channels));
    take_box({whole, targets}, box, own);
    targets = std::move(own);
  }
  sums_.add(outputs, targets);
}

std::optional<MetricValue> Objective::metric() const {
  if (!metric_) return {};
  return MetricValue{*metric_, sums_.value(*metric_)};
}

}  // namespace mrmf
