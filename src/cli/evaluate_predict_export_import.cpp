// Commands that take a trained model: `mrmf evaluate` and `mrmf predict`, `mrmf export` and `mrmf import`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "generated/version.hpp"
#include "io/coarsen/coarsen.hpp"
#include "io/rows/dataset.hpp"
#include "kernels/errors.hpp"
#include "layers/model.hpp"
#include "layers/stem.hpp"
#include "src/cli/commands.hpp"
#include "src/data/normalisation_and_float32_precision.hpp"
#include "src/export/exported_model.hpp"
#include "src/export/onnx.hpp"
#include "src/inference/evaluate_and_predict.hpp"
#include "src/inference/trained_models.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_folder.hpp"
#include "src/system/backend_choice.hpp"

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

// `mrmf export`: a trained model as a file that other programs read.

namespace {

enum class ModelFormat { onnx, safetensors };

struct ExportOptions {
  std::string model;  ///< a run's folder, or a model file
  std::string output;
  std::optional<ModelFormat> format;  ///< empty: by the output's ending
  std::string sample;                 ///< "1600x3"; empty: from the model file, else from the run's data
  Replace replace = Replace::nothing;
  WantedModel wanted;
};

ModelFormat format_of(const ExportOptions& options) {
  if (options.format) return *options.format;
  const std::string ending = std::filesystem::path(options.output).extension().string();
  if (ending == ".onnx") return ModelFormat::onnx;
  if (ending == ".safetensors") return ModelFormat::safetensors;
  throw ConfigError("export: the format of " + options.output +
                    " is not known: give --format onnx or --format safetensors, or a name that ends like one");
}

// The shape of the network's input: as given, as the model file says, or of the run's data.
Shape input_shape(const ExportOptions& options, const ModelChoice& choice, Comm& world) {
  if (!options.sample.empty()) return coarse_shape(parse_sample(options.sample), choice.resolution);
  if (const std::string stored = read_model_facts(choice.file, world).sample; !stored.empty())
    return parse_sample(stored);
  DatasetSpec data = choice.config.data.train;
  find_from_run(data.files, choice);
  if (data.files.empty() || !absent(data.files).empty())
    throw DataError(choice.file +
                    ": it does not say the shape of a sample, as models of earlier versions do not, and the run's data "
                    "is not there; give --sample, e.g. --sample 1600x3");
  return coarse_shape(headers_of(data, world).sample, choice.resolution);
}

void add_facts(ExportedModel& model, const ModelChoice& choice) {
  const Config& config = choice.config;
  const Shape in = model.network.input(), out = model.network.output();
  model.task = config.training.loss.task();
  model.layout = config.data.train.layout;
  model.samples = sample_map(config, in);
  model.labels = output_map(config, out);
  constexpr const char* tasks[] = {"regression", "binary", "classes"};
  model.facts = {{"program", fmt::format("mrmf {} ({})", kVersion, kGitHash)},
                 {"run", choice.run.empty() ? choice.file : choice.run},
                 {"resolution", resolution_text(choice.resolution, in.axes)},
                 {"sample", to_string(in)},
                 {"output", to_string(out)},
                 {"task", tasks[static_cast<std::size_t>(model.task)]},
                 {"samples", fmt::format("{}", fmt::join(config.data.train.sample_names(), ", "))}};
  if (!model.samples.fill.empty()) model.facts["missing"] = "NaN";
  if (model.samples.mask) model.facts["mask"] = "the last channel of a sample is made of the others: what is there";
  if (!config.data.train.axes.empty()) model.facts["axes"] = config.data.train.axes;
}

void export_model(const ExportOptions& options, Comm& world) {
  const ModelFormat format = format_of(options);
  const ModelChoice choice = choose_model(options.model, options.wanted, world);
  collective_try(world, [&] {
    if (world.root()) require_output(options.output, options.replace, choice.inputs());
  });
  RunConfig run = choice.config.run;
  run.device = Device::cpu;
  const auto backend = make_backend(run, world);
  ModelSettings settings;
  settings.network = network_for(choice.config, choice.resolution, input_shape(options, choice, world));
  Model model(*backend, settings);
  load_model(*backend, choice.file, model, world);
  require_finite(*backend, model, choice.file);
  if (model.has_terms()) {
    settings.network = serving_network(model.network(), settings.network);
    Model serving(*backend, settings);
    copy_layers(*backend, model, serving);
    model = std::move(serving);
  }
  ExportedModel whole = exported(*backend, model);
  add_facts(whole, choice);
  if (world.root() && !choice.text.empty()) std::cout << choice.text << "\n";
  tell_epoch(choice.file, std::cout, world);
  collective_try(world, [&] {
    if (!world.root()) return;
    const std::string bytes = format == ModelFormat::onnx ? onnx_bytes(whole) : safetensors_bytes(whole);
    write_file(options.output, bytes, options.replace);
    std::cout << fmt::format("{}: {} of {} parameters, sample {}, output {}\n", options.output,
                             format == ModelFormat::onnx ? fmt::format("ONNX, opset {},", kOnnxOpset) : "safetensors",
                             model.network().trainable(), to_string(model.network().input()),
                             to_string(model.network().output()));
  });
}

}  // namespace

void add_export(Subcommands& commands) {
  CLI::App* sub = commands.app.add_subcommand(
      "export", fmt::format("write a trained model for other programs: ONNX (opset {}) or safetensors", kOnnxOpset));
  auto options = std::make_shared<ExportOptions>();
  sub->add_option("model", options->model, "folder of a finished run, or a model file")->required();
  sub->add_option("--output,-o", options->output, "file to write")->required();
  const Choices<ModelFormat> formats{{"onnx", ModelFormat::onnx}, {"safetensors", ModelFormat::safetensors}};
  add_choice(*sub, "--format", options->format, formats,
             fmt::format("onnx (opset {}) or safetensors; default: by the ending of the output's name", kOnnxOpset));
  sub->add_option("--sample", options->sample,
                  "shape of a sample at the original resolution, e.g. 1600x3; default: the model's own");
  add_wanted(*sub, options->wanted);
  add_overwrite(*sub, options->replace);
  add_example(*sub,
              "mrmf export runs/mine -o mine.onnx\n"
              "mrmf export runs/mine --format safetensors -o mine.safetensors");
  commands.run(*sub, [=, &world = commands.world] { export_model(*options, world); });
}

// `mrmf import`: a model file from parameters that another program wrote.

namespace {

struct ImportOptions {
  std::string file, output, config;
  std::vector<std::string> overrides;
  std::string sample;  ///< "1600x3"; empty: as the file says, else the data's
  Replace replace = Replace::nothing;
};

// The shape of the network's input. Of a file that mrmf export wrote it is in the file.
Shape input_shape(const ImportOptions& options, const Config& config, const Extent& resolution,
                  const SafetensorsFile& file, Comm& world) {
  const std::string stored = file.metadata("sample");
  if (!options.sample.empty() || stored.empty())
    return coarse_shape(data_sample(config, options.sample, world).shape, resolution);
  try {
    return parse_sample(stored);
  } catch (const ConfigError&) {
    throw DataError(options.file + ": \"sample\" of its metadata is no shape such as 1600x3; give --sample");
  }
}

// The units of a model are part of it, and import sees no samples to measure.
void require_measured(const std::string& path, const DataConfig& data) {
  for (const Normalisation* units : {&data.normalise_samples, &data.normalise_labels})
    if (units->mean_std && units->mean.empty() && units->std.empty())
      throw ConfigError(path +
                        ": mean and standard deviation of data.normalise are still to be measured; give the run's own "
                        "config.toml: --config RUN/config.toml");
}

// Only a stem of "auto" changes the network, and the file tells whether its model has one.
void resolve_method(Config& config, const SafetensorsFile& file, const Shape& sample) {
  if (config.method.name != MethodName::automatic) return;
  if (file.tensors().contains(std::string(kStemLayer) + ".weight")) config = choose_schedule(config, sample).config;
  if (config.method.top != TopRule::stem) config.method = {};
}

void import_model(const ImportOptions& options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  collective_try(world, [&] {
    if (world.root()) require_output(options.output, options.replace, {options.file, options.config});
  });
  const SafetensorsFile file(options.file);
  const bool automatic = config.method.name == MethodName::automatic;
  const Extent resolution = automatic ? Extent{1, 1, 1} : make_plan(config).last.resolution;
  const Shape input = input_shape(options, config, resolution, file, world);
  resolve_method(config, file, input);
  RunConfig run = config.run;
  run.device = Device::cpu;
  const auto backend = make_backend(run, world);
  ModelSettings settings;
  settings.network = network_for(config, resolution, input);
  Model model(*backend, settings);
  require_measured(options.config, config.data);
  sample_map(config, model.network().input());  // ConfigErrors where nobody could use the model
  output_map(config, model.network().output());
  collective_try(world, [&] { read_parameters(*backend, file, model); });
  save_model(*backend, options.output, model, {to_toml(config)}, world, options.replace);
  if (world.root())
    std::cout << fmt::format("{}: {} parameters of {}, sample {}, output {}\n", options.output,
                             model.network().trainable(), options.file, to_string(model.network().input()),
                             to_string(model.network().output()));
}

}  // namespace

void add_import(Subcommands& commands) {
  CLI::App* sub = commands.app.add_subcommand(
      "import", "make a model file of the network of a configuration with the parameters of a safetensors file");
  auto options = std::make_shared<ImportOptions>();
  sub->add_option("file", options->file, "safetensors file, with float32 tensors \"<layer>.<part>\"")->required();
  sub->add_option("--output,-o", options->output, "model file (HDF5) to write")->required();
  sub->add_option("--config", options->config, "configuration file (TOML) with the network")->required();
  sub->add_option("--set", options->overrides, "override a key: --set data.channels=3")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
  sub->add_option("--sample", options->sample,
                  "shape of a sample at the original resolution, e.g. 1600x3; default: the file's, else the data's");
  add_overwrite(*sub, options->replace);
  add_example(*sub, "mrmf import mine.safetensors -o model.h5 --config runs/mine/config.toml");
  commands.run(*sub, [=, &world = commands.world] { import_model(*options, world); });
}

}  // namespace mrmf
