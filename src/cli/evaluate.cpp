// `mrmf evaluate`: how well a trained model, of a run or in a file, does on any data of the same kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/cli/commands.hpp"
#include "src/cli/scores.hpp"
#include "src/cli/trained.hpp"
#include "src/data/data.hpp"

namespace mrmf {
namespace {

// Prints what belongs to the task.
void print_scores(const ModelOptions& options, Comm& world) {
  Trained t = open_trained(options, LabelUse::needed, world);
  Scores scores(t.task(), t.output(), t.target_channels());
  const ChannelMap& units = t.models.front().labels;
  const auto add = [&](const Evaluated& batch) {
    if (units.empty()) return scores.add(batch.outputs, batch.labels, batch.loss);
    std::vector<float> y(batch.outputs.begin(), batch.outputs.end()), labels(batch.labels.begin(), batch.labels.end());
    undo(units, 0, y);
    undo(units, 0, labels);
    scores.add(y, labels, batch.loss);
  };
  collective_try(world, [&] { for_each_batch(t, {}, add); });  // no rank waits for another inside
  scores.sum(world);
  if (!world.root()) return;
  if (scores.labelled() == 0)
    std::cerr << "warning: " << no_label_text(t.spec, t.config.training, "evaluated")
              << ": there is nothing to score\n";
  if (options.json) {
    nlohmann::ordered_json json{{"samples", t.shape.samples},
                                {"samples_name", t.spec.samples},
                                {"labels_name", t.spec.labels_text()},
                                {"files", t.spec.files}};
    json.update(scores.json());
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::cout << fmt::format("{} samples of {} with labels {} ({})\n\n{}", t.shape.samples, t.spec.samples,
                           t.spec.labels_text(), fmt::join(t.spec.files, ", "), scores.text());
}

}  // namespace

void add_evaluate(Subcommands& commands) {
  CLI::App* evaluate = commands.app.add_subcommand(
      "evaluate",
      "print how good a trained model is on data: errors and R^2 per label, or accuracy, IoU and Dice per class");
  auto options = std::make_shared<ModelOptions>();
  evaluate->add_option("model", options->models, "folder of a finished run, or a model file")->required()->expected(1);
  add_model_options(*evaluate, *options);
  evaluate
      ->add_option("--labels", options->labels,
                   "name of the data set of labels, e.g. test_unitStar_par; once for each where there are several")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_json(*evaluate, options->json);
  add_example(*evaluate, "mrmf evaluate runs/mine");
  commands.run(*evaluate, [=, &world = commands.world] { print_scores(*options, world); });
}

}  // namespace mrmf
