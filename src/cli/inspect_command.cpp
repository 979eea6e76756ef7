// `mrmf inspect` and `mrmf doctor`.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>

#include "generated/version.hpp"
#include "io/hdf5_file.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/inspect.hpp"
#include "src/config/presets.hpp"
#include "src/data/data.hpp"
#include "src/plan/config_warnings.hpp"
#include "src/run/records.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

/// The first file that is not there; empty: all are.
std::string absent(const std::vector<std::string>& files) {
  std::error_code unreadable;  // counts as there, so that opening the file says why
  for (const std::string& file : files)
    if (std::filesystem::status(file, unreadable).type() == std::filesystem::file_type::not_found) return file;
  return {};
}

std::string absent_text(const std::string& file) {
  std::error_code ignored;
  const bool pattern = file.find_first_of("*?[") != std::string::npos;
  const bool relative = std::filesystem::path(file).is_relative();
  return file + " is not there" +
         (pattern    ? " (data.files takes names, not patterns: list every file)"
          : relative ? " (looked for in " + std::filesystem::current_path(ignored).string() + ")"
                     : "");
}

// What a rank of `world` holds of both splits, as a run decides it. Collective.
HeldData held_data(const Config& config, Comm& world) {
  HeldData held;
  const auto add = [&](const DatasetSpec& spec, bool validation) {
    DataPart part{inspect_dataset(spec, world), {}};
    part.order = order_settings(config.data, part.shape.samples, world.size(), world.rank());
    if (validation) part.order.shuffle = false;
    part.batch_rows =
        largest_batches(config, [&](Index batch) { return validation ? validation_batch(part.order, batch) : batch; });
    held.parts.push_back(std::move(part));
  };
  add(config.data.train, false);
  if (absent(config.data.validation.files).empty()) add(config.data.validation, true);
  held.stores = plan_memory(config.data, held.parts, world, ranks_of_same(host_name(), world).size()).stores;
  return held;
}

}  // namespace

void inspect_command(const InspectOptions& options, Comm& world) {
  const Config config = read_config(options.config, options.overrides);
  Shape sample;
  std::optional<HeldData> held;
  std::string origin = "as given";
  const std::string missing = absent(config.data.train.files);
  if (!options.sample.empty()) {
    sample = parse_sample(options.sample);
  } else if (missing.empty()) {
    held = held_data(config, world);
    sample = held->parts.front().shape.sample;
    origin = "from the data";
  } else if (const std::string usual = preset_sample(config.model.preset); !usual.empty()) {
    sample = parse_sample(usual);
    origin = "the preset's own: " + absent_text(missing);
  } else {
    throw DataError(
        absent_text(missing) +
        "; the sample's shape is taken from it: correct data.files, or give --sample, e.g. --sample 1600x3");
  }
  if (held) require_channels(config.data, sample);
  print_warnings(config_warnings(config), world);
  print_warnings(sample_warnings(config, sample), world);
  RunConfig cpu = config.run;
  cpu.device = "cpu";
  const auto backend = make_backend(cpu, world);
  const std::string text = inspect_text(*backend, config, sample, held, world.size());
  if (world.root()) std::cout << fmt::format("sample {} ({})\n\n{}", to_string(sample), origin, text);
}

void doctor_command(Comm& world) {
  std::unique_ptr<Backend> backend;
  std::string no_gpu;
  try {
    backend = make_backend(RunConfig{}, world);
  } catch (const ConfigError& error) {  // a GPU is there and cannot be used: that is what one asks a doctor for
    no_gpu = error.what();
    RunConfig cpu;
    cpu.device = "cpu";
    backend = make_backend(cpu, world);
  }
  const int threads = choose_threads(0, world);
  if (!world.root()) return;
  const Machine machine = this_machine();
  std::cout << fmt::format("mrmf       {} ({})\n", kVersion, kGitHash)
            << fmt::format("processor  {}, {} core{} usable\n", machine.processor, machine.cores,
                           machine.cores == 1 ? "" : "s")
            << fmt::format("memory     {:.1f} GiB\n", machine.memory_gib)
            << fmt::format("backend    {}\n", backend->description())
            << (no_gpu.empty() ? "" : fmt::format("GPU        cannot be used: {}\n", no_gpu))
            << fmt::format("MPI        {}\n", MpiSession::version()) << fmt::format("HDF5       {}\n", hdf5_version())
            << fmt::format("ranks      {}\n", world.size()) << fmt::format("threads    {} on rank 0\n", threads)
            << fmt::format("plots      {}\n", kPython);
}

}  // namespace mrmf
