#include "src/inference/evaluate.hpp"

#include <utility>

#include "src/data/data.hpp"
#include "src/data/label_names.hpp"

namespace mrmf {

ScoreSettings evaluation_settings(const Trained& t) {
  ScoreSettings settings = score_settings(t.config.training, t.output(), t.target_channels(), {});
  settings.units = t.models.front().labels;
  // Of positions, all scores are kept in memory: only where they were asked for.
  const auto metric = metric_of(t.config.training, t.output());
  settings.ranked = settings.ranked || (metric && metric->kind == MetricKind::auc);
  return settings;
}

Evaluation evaluate(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, LabelUse::needed, world);
  Scores scores(evaluation_settings(t), names_of(t.config));
  const auto add = [&](const BatchResult& batch) { scores.add(batch.outputs, batch.labels, batch.loss); };
  collective_try(world, [&] { for_each_batch(t, {}, add); });  // no rank waits for another inside
  scores.sum(world);
  std::string warning;
  if (scores.labelled() == 0)
    warning = no_label_text(t.spec, t.config.training, "evaluated") + ": there is nothing to score";
  return {std::move(scores), std::move(t.spec), t.shape.samples, std::move(warning)};
}

}  // namespace mrmf
