// `mrmf import`: a model file from parameters that another program wrote.
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "kernels/errors.hpp"
#include "layers/stem.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/data_sample.hpp"
#include "src/data/normalise.hpp"
#include "src/export/exported_model.hpp"
#include "src/method/auto_schedule.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {

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
