// `mrmf evaluate`: how well a trained model, of a run or in a file, does on any data of the same kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cli/commands.hpp"
#include "src/inference/evaluate.hpp"

namespace mrmf {
namespace {

struct EvaluateOptions {
  ModelOptions model;
  bool json = false;
};

void print_scores(EvaluateOptions options, Comm& world) {
  options.model.notes = options.json ? &std::cerr : &std::cout;
  const Evaluation done = evaluate(options.model, world);
  if (!world.root()) return;
  if (!done.warning.empty()) std::cerr << "warning: " << done.warning << "\n";
  if (options.json) {
    nlohmann::ordered_json json{{"samples", done.samples},
                                {"samples_name", done.data.samples},
                                {"labels_name", done.data.labels_text()},
                                {"files", done.data.files}};
    json.update(done.scores.json());
    std::cout << json.dump(2) << "\n";
    return;
  }
  std::cout << fmt::format("{} samples of {} with labels {} ({})\n\n{}", done.samples, done.data.samples,
                           done.data.labels_text(), fmt::join(done.data.files, ", "), done.scores.text());
}

}  // namespace

void add_evaluate(Subcommands& commands) {
  CLI::App* evaluate = commands.app.add_subcommand(
      "evaluate",
      "print how good a trained model is on data: errors and R^2 per label, or accuracy, IoU and Dice per class");
  auto options = std::make_shared<EvaluateOptions>();
  evaluate->add_option("model", options->model.models, "folder of a finished run, or a model file")
      ->required()
      ->expected(1);
  add_model_options(*evaluate, options->model);
  evaluate
      ->add_option("--labels", options->model.labels,
                   "name of the data set of labels, e.g. test_unitStar_par; once for each where there are several")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  add_json(*evaluate, options->json);
  add_example(*evaluate, "mrmf evaluate runs/mine");
  commands.run(*evaluate, [=, &world = commands.world] { print_scores(*options, world); });
}

}  // namespace mrmf
