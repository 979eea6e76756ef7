// `mrmf inspect`: shows the model at every resolution of the plan, before anything runs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "layers/execution.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/data_sample.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/method/auto_schedule.hpp"
#include "src/plan/labels.hpp"
#include "src/plan/plan.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"
#include "src/training/memory_estimate.hpp"

namespace mrmf {
namespace {

struct InspectOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string sample;  ///< "1600x3"; empty: from the data, else the preset's
};

constexpr double kMega = 1e6;

// Thousands separators, for parameter counts.
std::string grouped(Index value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<Index>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string byte_text(Index count) {
  const auto bytes = static_cast<double>(count);
  return bytes < kMega ? fmt::format("{:.1f} kB", bytes / 1e3) : fmt::format("{:.2f} MB", bytes / kMega);
}
std::string memory_text(Index floats) { return byte_text(4 * floats); }

// What a layer reads, where that is not the layer before.
std::string from_text(const Network& network, std::size_t i) {
  return network.wiring()[i] == std::vector{i} ? "" : fmt::format("{}", fmt::join(network.entry(i).spec.from, ", "));
}

std::string place_text(const Place& place) { return fmt::format("{:.2f}", 4e-6 * static_cast<double>(place.first)); }

// `last`: the unit that ends with this layer; of fused layers only the last output is stored.
std::string layer_line(const Network& network, std::size_t i, std::size_t from_width, const Unit* last) {
  const Entry& entry = network.entry(i);
  const bool own_memory = last != nullptr && !last->memory.in_place;
  return fmt::format(
      "  {:<14} {:<{}}{:<7} {:>16} {:>12} {:>14.3f} {:>14} {:>9} {:>12}\n", entry.name, from_text(network, i),
      from_width, entry.top ? "top" : "bottom", to_string(entry.output()), grouped(entry.params.count),
      entry.layer->flop() / kMega, own_memory ? memory_text(entry.output().per_sample()) : "-",
      last != nullptr ? place_text(last->memory.output) : "-", last != nullptr ? place_text(last->memory.dy) : "-");
}

std::string network_text(Backend& backend, const NetworkSettings& settings, const Extent& resolution,
                         const RunMemory& memory) {
  const Network network(backend, settings);
  const Execution execution = plan_execution(backend, network, {settings, 0, true});
  std::size_t from_width = 0;
  for (std::size_t i = 0; i < network.size(); ++i)
    if (!from_text(network, i).empty()) from_width = std::max({from_width, from_text(network, i).size() + 1, 5UL});
  std::string text =
      fmt::format("resolution {}: sample {}, batch {} per rank\n", resolution_text(resolution, network.input().axes),
                  to_string(network.input()), settings.max_rows);
  text += fmt::format("  {:<14} {:<{}}{:<7} {:>16} {:>12} {:>14} {:>14} {:>9} {:>12}\n", "layer",
                      from_width > 0 ? "from" : "", from_width, "group", "output", "parameters", "forward MFLOP",
                      "activations", "at", "gradient at");
  Index outputs = 0;
  for (const Unit& unit : execution.units) {
    for (std::size_t i = unit.first; i < unit.last; ++i)
      text += layer_line(network, i, from_width, i + 1 == unit.last ? &unit : nullptr);
    if (!unit.memory.in_place) outputs += unit.out.per_sample();
  }
  Index state = 0;
  for (const Entry& entry : network.entries()) state += entry.state.count;
  text += fmt::format("  {:<14} {:<{}}{:<7} {:>16} {:>12} {:>14.2f} {:>14}\n", "all", "", from_width, "", "",
                      grouped(network.trainable()), network.flop() / kMega, memory_text(outputs));
  text += fmt::format("  flat features {}, running statistics {}; memory in training: model {}, workspace {}\n",
                      grouped(network.flat_features()), grouped(state), byte_text(memory.models),
                      byte_text(memory.workspace));
  text += fmt::format("  activations and their gradients lie in one arena of {}; each by itself they would take {}\n\n",
                      memory_text(execution.activations), memory_text(execution.separate));
  return text;
}

// Replicas of one rank when a run computes shard by shard; 0 when it computes whole batches.
int own_replicas(const Config& config, int ranks) {
  return config.run.deterministic ? (config.data.shards + ranks - 1) / ranks : 0;
}

std::string peak_text(const RunMemory& m, bool with_data) {
  return fmt::format(
      "memory of a rank at its peak: {}{} (program {}, models {}, workspace {}, batches {}, saving {}{})\n",
      byte_text(m.all()), with_data ? "" : " and its data", byte_text(m.program), byte_text(m.models),
      byte_text(m.workspace), byte_text(m.batches), byte_text(m.saving),
      with_data ? ", data " + byte_text(m.data) : "");
}

// Per layer: output shape, parameters, forward FLOP, activation memory, group; totals per resolution; and the memory of
// a rank in training with this backend. `sample` is the original sample's shape. `held` is missing when the data are.
// `ranks` is the run's number of ranks.
std::string inspect_text(Backend& backend, const Config& config, const Shape& sample,
                         const std::optional<HeldData>& held, int ranks) {
  MemoryCount memory(backend, config.training, own_replicas(config, ranks));
  const Plan plan = make_plan(config);
  std::string text;
  for (const Extent& resolution : plan.resolutions()) {
    const NetworkSettings settings = network_settings(config, plan, sample, resolution);
    const RunMemory stage = memory.add(settings);
    text += network_text(backend, settings, resolution, stage);
  }
  return text +
         "activations are per sample; - : the layer writes over its input, or is fused with the next\n"
         "at, gradient at: where in the arena the batch's outputs and their gradients begin, in MB\n" +
         peak_text(memory.peak(plan, held), held.has_value());
}

// This rank's share of both splits, decided as in a run of `world`. Collective.
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

void print_model(const InspectOptions& options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const DataSample of = data_sample(config, options.sample, world);
  if (config.method.name == MethodName::automatic) config = choose_schedule(config, of.shape).config;
  const Shape& sample = of.shape;
  std::optional<HeldData> held;
  if (of.from_data) held = held_data(config, world);
  if (held) {
    require_channels(config.data, sample);
    Config settled = config;
    settle_labels(settled, held->parts.front().shape, make_plan(config).resolutions());
  }
  print_warnings(config_warnings(config), world);
  print_warnings(sample_warnings(config, sample), world);
  RunConfig cpu = config.run;
  cpu.device = Device::cpu;
  const auto backend = make_backend(cpu, world);
  const std::string text = inspect_text(*backend, config, sample, held, world.size());
  if (world.root()) std::cout << fmt::format("sample {} ({})\n\n{}", to_string(sample), of.origin, text);
}

}  // namespace

void add_inspect(Subcommands& commands) {
  CLI::App* inspect = commands.app.add_subcommand(
      "inspect", "print the model's layers, parameters, FLOP and memory at every resolution of the plan");
  auto options = std::make_shared<InspectOptions>();
  add_config(*inspect, options->config, options->overrides);
  add_sample(*inspect, options->sample);
  commands.run(*inspect, [=, &world = commands.world] { print_model(*options, world); });
}

}  // namespace mrmf
