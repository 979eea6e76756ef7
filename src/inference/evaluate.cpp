#include "src/inference/evaluate.hpp"

#include <utility>
#include <vector>

#include "src/data/data.hpp"

namespace mrmf {

Evaluation evaluate(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, LabelUse::needed, world);
  Scores scores(t.task(), t.output(), t.target_channels());
  const ChannelMap& units = t.models.front().labels;
  const auto add = [&](const BatchResult& batch) {
    if (units.empty()) return scores.add(batch.outputs, batch.labels, batch.loss);
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end()), labels(batch.labels.begin(), batch.labels.end());
    undo(units, 0, y);
    undo(units, 0, labels);
    scores.add(y, labels, batch.loss);
  };
  collective_try(world, [&] { for_each_batch(t, {}, add); });  // no rank waits for another inside
  scores.sum(world);
  std::string warning;
  if (scores.labelled() == 0)
    warning = no_label_text(t.spec, t.config.training, "evaluated") + ": there is nothing to score";
  return {std::move(scores), std::move(t.spec), t.shape.samples, std::move(warning)};
}

}  // namespace mrmf
