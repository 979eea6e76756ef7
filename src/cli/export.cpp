// `mrmf export`: a trained model as a file that other programs read.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "generated/version.hpp"
#include "io/coarsen/coarsen.hpp"
#include "io/rows/dataset.hpp"
#include "kernels/errors.hpp"
#include "layers/serving.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/data_sample.hpp"
#include "src/data/normalise.hpp"
#include "src/export/exported_model.hpp"
#include "src/export/onnx.hpp"
#include "src/export/onnx_graph.hpp"
#include "src/inference/model_choice.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
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

}  // namespace mrmf
