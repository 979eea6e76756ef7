// Trained models on data: `mrmf evaluate` and `mrmf predict`.
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/inference/evaluate.hpp"
#include "src/inference/predict.hpp"
#include "src/run/records.hpp"
#include "src/run/run_folder.hpp"

namespace mrmf {

// `mrmf evaluate`: how well a trained model, of a run or in a file, does on any data of the same kind.

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

// `mrmf predict`: the outputs of trained models for every sample, and how far they differ.

namespace {

void write_predictions(PredictOptions options, bool ensemble, Comm& world) {
  if (ensemble) options.model.models = with_trainers(with_folds(options.model.models));
  if (ensemble && options.model.models.size() < 2)
    throw ConfigError(
        "predict --ensemble: " + options.model.models.front() +
        " is one model; name the folder in which mrmf train --folds has trained, or a tournament's, or several "
        "runs");
  options.model.notes = &std::cout;
  const std::string made = predict(options, world);
  if (world.root()) std::cout << options.model.output << ": " << made << "\n";
}

}  // namespace

void add_predict(Subcommands& commands) {
  CLI::App* predict = commands.app.add_subcommand("predict",
                                                  "write a trained model's outputs, and probabilities and classes, for "
                                                  "every sample to an HDF5 file; needs no labels");
  auto options = std::make_shared<PredictOptions>();
  predict
      ->add_option("model", options->model.models,
                   "folder of a finished run, or a model file; several of one kind, such as runs of other seeds, are "
                   "averaged")
      ->required();
  auto ensemble = std::make_shared<bool>();
  predict->add_flag(
      "--ensemble", *ensemble,
      "average the runs of all folds in the folder that mrmf train --folds has filled, or of a tournament's "
      "trainers");
  add_model_options(*predict, options->model);
  predict->add_option("--labels", options->model.labels, "accepted as for evaluate; labels are never read")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  predict
      ->add_option(
          "--output,-o", options->model.output,
          "HDF5 file to write; data sets \"prediction\", \"probability\", \"class\", and \"deviation\" of several "
          "models or passes")
      ->required();
  predict->add_option(
      "--append", options->model.append,
      "data sets of the input files with a row per sample (coordinates, ids, masks) to copy beside them");
  CLI::Option* dropout =
      predict
          ->add_option("--dropout", options->passes.dropout,
                       "passes with dropout, whose mean and deviation are written; default: one pass without")
          ->check(CLI::Range(1, 1000000));
  predict->add_option("--seed", options->passes.seed, "seed of the dropout masks of these passes")
      ->needs(dropout)
      ->capture_default_str();
  add_overwrite(*predict, options->model.replace);
  add_example(*predict,
              "mrmf predict runs/mine --files mydata.h5 --samples test_fields -o predictions.h5\n"
              "mrmf predict runs/mine runs/mine-2 --append val_parameters -o seeds.h5");
  commands.run(*predict, [=, &world = commands.world] { write_predictions(*options, *ensemble, world); });
}

}  // namespace mrmf
