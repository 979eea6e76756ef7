// `mrmf inspect`, a configuration's network and memory, and `mrmf presets`, the networks that have names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "layers/execution.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"
#include "src/config/model_config.hpp"
#include "src/data/data.hpp"
#include "src/plan/plan.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/tournament/tournament.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {

// `mrmf inspect`: shows the model at every resolution of the plan, before anything runs.

namespace {

struct InspectOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string sample;  ///< "1600x3"; empty: from the data, else the preset's
  bool json = false;
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

std::string offset_text(const ArenaSpan& span) { return fmt::format("{:.2f}", 4e-6 * static_cast<double>(span.first)); }

/// A line of the table, and an entry of the JSON.
struct LayerFacts {
  std::string name, from;
  bool top = false;
  Shape output;
  Index parameters = 0;
  double flop = 0;             ///< flop of a sample's forward
  const Unit* last = nullptr;  ///< the unit that ends with this layer; the arena has the last output of fused ones
  bool own_memory() const { return last != nullptr && !last->memory.in_place; }
};

/// One network of the plan.
struct NetworkFacts {
  Network network;
  Execution execution;
  Extent resolution{1, 1, 1};
  RunMemory memory;
  Grid grid{};  ///< the memory is that of its first block's rank; the network is of whole samples
  Index batch = 0, micro_batches = 1, rows = 0;  ///< a rank's batch, and what it computes at once
  std::vector<LayerFacts> layers{};
  Index outputs = 0, state = 0;  ///< floats that a sample's stored outputs take; running statistics
};

NetworkFacts network_facts(Backend& backend, const NetworkSettings& settings, const Extent& resolution,
                           const RunMemory& memory) {
  Network network(backend, settings);
  Execution execution = build_execution(backend, network, {settings, 0, true});
  NetworkFacts facts{std::move(network), std::move(execution), resolution, memory};
  facts.rows = settings.max_rows;
  for (const Unit& unit : facts.execution.units) {
    for (std::size_t i = unit.first; i < unit.last; ++i) {
      const LayerEntry& entry = facts.network.entry(i);
      facts.layers.push_back({entry.name, from_text(facts.network, i), entry.top, entry.output(), entry.params.count,
                              entry.layer->flop(), i + 1 == unit.last ? &unit : nullptr});
    }
    if (!unit.memory.in_place) facts.outputs += unit.out.per_sample();
  }
  for (const LayerEntry& entry : facts.network.entries()) facts.state += entry.state.count;
  return facts;
}

/// Widths of the columns that hold names; from: 0 where every layer reads the one before it.
struct NameWidths {
  std::size_t name = 14, from = 0;
};

NameWidths widths_of(const std::vector<LayerFacts>& layers) {
  NameWidths widths;
  for (const LayerFacts& layer : layers) {
    widths.name = std::max(widths.name, layer.name.size());
    if (!layer.from.empty()) widths.from = std::max({widths.from, layer.from.size() + 1, 5UL});
  }
  return widths;
}

std::string layer_line(const LayerFacts& layer, const NameWidths& widths) {
  return fmt::format("  {:<{}} {:<{}}{:<7} {:>16} {:>12} {:>14.3f} {:>14} {:>9} {:>12}\n", layer.name, widths.name,
                     layer.from, widths.from, layer.top ? "top" : "bottom", to_string(layer.output),
                     grouped(layer.parameters), layer.flop / kMega,
                     layer.own_memory() ? memory_text(layer.output.per_sample()) : "-",
                     layer.last != nullptr ? offset_text(layer.last->memory.output) : "-",
                     layer.last != nullptr ? offset_text(layer.last->memory.dy) : "-");
}

// "8 per rank, in 4 micro-batches of 2"
std::string batch_text(const NetworkFacts& facts) {
  const std::string batch = fmt::format("{} per rank", facts.batch);
  if (facts.micro_batches == 1) return batch;
  return fmt::format("{}, in {} micro-batches of {}{}", batch, facts.micro_batches,
                     facts.micro_batches * facts.rows == facts.batch ? "" : "at most ", facts.rows);
}

std::string network_text(const NetworkFacts& facts) {
  const Network& network = facts.network;
  const NameWidths widths = widths_of(facts.layers);
  std::string text =
      fmt::format("resolution {}: sample {}, batch {}{}\n", resolution_text(facts.resolution, network.input().axes),
                  to_string(network.input()), batch_text(facts),
                  facts.grid.ranks() > 1 ? ", grid " + resolution_text(facts.grid.blocks, network.input().axes) : "");
  text += fmt::format("  {:<{}} {:<{}}{:<7} {:>16} {:>12} {:>14} {:>14} {:>9} {:>12}\n", "layer", widths.name,
                      widths.from > 0 ? "from" : "", widths.from, "group", "output", "parameters", "forward MFLOP",
                      "activations", "at", "gradient at");
  for (const LayerFacts& layer : facts.layers) text += layer_line(layer, widths);
  text += fmt::format("  {:<{}} {:<{}}{:<7} {:>16} {:>12} {:>14.2f} {:>14}\n", "all", widths.name, "", widths.from, "",
                      "", grouped(network.trainable()), network.flop() / kMega, memory_text(facts.outputs));
  text += fmt::format("  flat features {}, running statistics {}; memory in training: model {}, workspace {}\n",
                      grouped(network.flat_features()), grouped(facts.state), byte_text(facts.memory.models),
                      byte_text(facts.memory.workspace));
  text += fmt::format("  activations and their gradients lie in one arena of {}; each by itself they would take {}\n\n",
                      memory_text(facts.execution.activations), memory_text(facts.execution.separate));
  return text;
}

using Json = nlohmann::ordered_json;

// Memory in bytes; what the table shows as "-" is null.
Json layer_json(const LayerFacts& layer) {
  const auto offset = [&](const ArenaSpan& at) { return Json(4 * at.first); };
  return {{"name", layer.name},
          {"from", layer.from},
          {"group", layer.top ? "top" : "bottom"},
          {"output", to_string(layer.output)},
          {"parameters", layer.parameters},
          {"forward_flop", layer.flop},
          {"activation_bytes", layer.own_memory() ? Json(4 * layer.output.per_sample()) : Json()},
          {"at_byte", layer.last != nullptr ? offset(layer.last->memory.output) : Json()},
          {"gradient_at_byte", layer.last != nullptr ? offset(layer.last->memory.dy) : Json()}};
}

Json network_json(const NetworkFacts& facts) {
  Json layers = Json::array();
  for (const LayerFacts& layer : facts.layers) layers.push_back(layer_json(layer));
  return {{"resolution", factors(facts.resolution, facts.network.input().axes)},
          {"sample", to_string(facts.network.input())},
          {"grid", factors(facts.grid.blocks, facts.network.input().axes)},
          {"batch", facts.batch},
          {"parts", facts.micro_batches},
          {"rows_at_once", facts.rows},
          {"layers", layers},
          {"parameters", facts.network.trainable()},
          {"forward_flop", facts.network.flop()},
          {"activation_bytes", 4 * facts.outputs},
          {"flat_features", facts.network.flat_features()},
          {"running_statistics", facts.state},
          {"model_bytes", facts.memory.models},
          {"workspace_bytes", facts.memory.workspace},
          {"arena_bytes", 4 * facts.execution.activations},
          {"separate_bytes", 4 * facts.execution.separate}};
}

// Replicas of one rank when a run computes shard by shard; 0 when it computes whole batches.
int own_replicas(const Config& config, int ranks) {
  return config.run.deterministic ? (config.data.shards + ranks - 1) / ranks : 0;
}

std::string peak_text(const RunMemory& m, bool with_data, bool shared) {
  return fmt::format(
      "memory of a rank{} at its peak: {}{} (program {}, models {}, workspace {}, batches {}, saving {}{})\n",
      shared ? " with its blocks of samples" : "", byte_text(m.all()), with_data ? "" : " and its data",
      byte_text(m.program), byte_text(m.models), byte_text(m.workspace), byte_text(m.batches), byte_text(m.saving),
      with_data ? ", data " + byte_text(m.data) : "");
}

Json peak_json(const RunMemory& m, bool with_data) {
  return {{"peak_bytes", m.all()},
          {"program_bytes", m.program},
          {"model_bytes", m.models},
          {"workspace_bytes", m.workspace},
          {"batch_bytes", m.batches},
          {"saving_bytes", m.saving},
          {"data_bytes", with_data ? Json(m.data) : Json()}};
}

/// All that is printed. The original sample's shape, and the memory of a rank in training.
struct Inspection {
  DataSample of;
  std::vector<NetworkFacts> networks{};
  RunMemory peak{};
  bool with_data = false;
  std::optional<TournamentOutlook> tournament{};
  std::vector<std::string> packing{};  ///< what is done to the numbers of the files

  bool shared() const {  ///< samples among ranks
    return std::ranges::any_of(networks, [](const NetworkFacts& facts) { return facts.grid.ranks() > 1; });
  }
};

std::string inspect_text(const Inspection& found) {
  std::string text = fmt::format("sample {} ({})\n\n", to_string(found.of.shape), found.of.origin);
  for (const std::string& line : found.packing) text.insert(text.size() - 1, line + "\n");
  for (const NetworkFacts& facts : found.networks) text += network_text(facts);
  return text +
         "activations are per sample; - : the layer writes over its input, or is fused with the next; a convolution that is\n"
         "fused with its batch norm keeps its output outside of the arena\n"
         "at, gradient at: where in the arena the batch's outputs and their gradients begin, in MB\n" +
         peak_text(found.peak, found.with_data, found.shared()) + (found.tournament ? to_text(*found.tournament) : "");
}

std::string inspect_json(const Inspection& found) {
  Json json{{"sample", to_string(found.of.shape)},
            {"origin", found.of.origin},
            {"packing", found.packing},
            {"resolutions", Json::array()}};
  for (const NetworkFacts& facts : found.networks) json["resolutions"].push_back(network_json(facts));
  json["memory_of_a_rank"] = peak_json(found.peak, found.with_data);
  if (found.tournament) json["memory_of_a_rank"]["visitor_bytes"] = found.tournament->visitor_bytes;
  return json.dump(2) + "\n";
}

// The largest share of a sample that the first block's rank reads, at any resolution.
double block_share(const Inspection& found) {
  double share = 0;
  for (const NetworkFacts& facts : found.networks) {
    if (facts.grid.ranks() == 1) return 1;
    const Box box = Partition(facts.network, facts.grid).tensor(0).stored.block({0, 0, 0});
    share = std::max(
        share, static_cast<double>(product(box.count)) / static_cast<double>(product(facts.network.input().spatial)));
  }
  return share;
}

// What validation in windows holds of a whole sample: it, its labels, and the outputs.
Index floats_of_windows(const Config& config, const DataSample& of, const Inspection& found) {
  if (!config.data.patch.any() || !of.train) return 0;
  return of.shape.per_sample() + of.train->label.per_sample() +
         product(of.shape.spatial) * found.networks.back().network.output().channels;
}

// The plan's networks with this backend. `held` is missing when the data are. `ranks` is the run's number of ranks.
Inspection inspect(Backend& backend, const Config& config, const DataSample& of, const std::optional<HeldData>& held,
                   int ranks) {
  MemoryCount memory(backend, config.training, own_replicas(config, ranks), ranks);
  const Plan plan = make_plan(config);
  Inspection found{of};
  for (const Extent& resolution : plan.resolutions()) {
    const NetworkSettings settings = network_settings(config, plan, of.shape, resolution);
    const Grid grid{plan.grid(resolution)};
    NetworkFacts facts = network_facts(backend, settings, resolution, memory.add(settings, grid));
    facts.grid = grid;
    facts.batch = plan.largest_batch(resolution);
    facts.micro_batches = config.training.accumulate;
    found.networks.push_back(std::move(facts));
  }
  found.peak = memory.peak(plan, held);
  if (reads_blocks(config.data))
    found.peak.data = static_cast<Index>(block_share(found) * static_cast<double>(found.peak.data));
  if (held) found.peak.data += floats_of_windows(config, of, found) * static_cast<Index>(sizeof(float));
  found.with_data = held.has_value();
  return found;
}

// This rank's share of both splits, decided as in a run of `world`. Collective.
HeldData held_data(const Config& config, Comm& world) {
  HeldData held;
  const auto add = [&](const DatasetSpec& spec, bool validation) {
    DataPart part{headers_of(spec, world), {}};
    part.order = order_settings(config.data, part.shape.samples, world.size(), world.rank());
    if (validation) part.order.shuffle = false;
    const bool windows = config.data.patch.any();
    if (!validation) part.patch = config.data.patch;
    part.batch_rows = largest_batches(config, [&](Index batch) {
      return !validation ? batch : windows ? 1 : validation_batch(part.order, batch);
    });
    held.parts.push_back(std::move(part));
  };
  add(config.data.train, false);
  if (DatasetSpec held_out = config.data.train; held_out.piece.held_out > 0) {
    held_out.piece.held = true;
    add(held_out, true);
  }
  if (absent(config.data.validation.files).empty()) add(config.data.validation, true);
  held.stores = budget_memory(config.data, held.parts, world, ranks_of_same(host_name(), world).size()).stores;
  return held;
}

void print_model(const InspectOptions& options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const DataSample of = data_sample(config, options.sample, world);
  if (config.method.name == MethodName::automatic)
    config = schedule_for(config, of, run_size(config, of, world), world).config;
  const Shape& sample = of.shape;
  const std::optional<TournamentOutlook> tournament =
      tournament_outlook(config, make_plan(config), sample, of.train ? std::optional(of.train->samples) : std::nullopt);
  const int trainers = config.tournament.trainers;
  const bool teams = world.size() % trainers == 0;  // else what one rank would have, of a trainer of its own
  if (tournament) config = trainer_config(config, 0);
  Comm team = !tournament ? world.duplicate()
              : teams     ? world.split(world.rank() / (world.size() / trainers))
                          : Comm::self();
  std::optional<HeldData> held;
  if (of.train) held = held_data(config, team);
  if (held) {
    require_channels(config.data, sample);
    Config resolved = config;
    resolve_labels(resolved, held->parts.front().shape, make_plan(config).resolutions());
  }
  print_warnings(config_warnings(config), world);
  print_warnings(sample_warnings(config, sample), world);
  RunConfig cpu = config.run;
  cpu.device = Device::cpu;
  const auto backend = make_backend(cpu, world);
  Inspection found = inspect(*backend, config, of, held, team.size());
  found.tournament = tournament;
  if (of.train) found.packing = packing_lines(config.data.train, world);
  if (world.root()) std::cout << (options.json ? inspect_json(found) : inspect_text(found));
}

}  // namespace

void add_inspect(Subcommands& commands) {
  CLI::App* inspect = commands.app.add_subcommand(
      "inspect", "print the model's layers, parameters, FLOP and memory at every resolution of the plan");
  auto options = std::make_shared<InspectOptions>();
  add_config(*inspect, options->config, options->overrides);
  add_sample(*inspect, options->sample);
  add_json(*inspect, options->json);
  add_example(*inspect, "mrmf inspect mine.toml");
  commands.run(*inspect, [=, &world = commands.world] { print_model(*options, world); });
}

// `mrmf presets`: lists the named networks, and all keys of the configuration.

namespace {

std::string presets_text() {
  std::string text;
  for (const Preset& preset : preset_list())
    text += preset.name + "  " + preset.description + "; samples " + preset.sample + "\n";
  return text;
}

std::string presets_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Preset& preset : preset_list())
    all.push_back({{"name", preset.name},
                   {"description", preset.description},
                   {"sample", preset.sample},
                   {"benchmark_batch", preset.batch}});
  return nlohmann::ordered_json{{"presets", all}}.dump(2) + "\n";
}

}  // namespace

void add_presets(Subcommands& commands) {
  CLI::App* presets = commands.app.add_subcommand(
      "presets", "list the networks that model.preset can name, or all keys of the configuration");
  auto keys = std::make_shared<bool>(), json = std::make_shared<bool>();
  presets->add_flag("--keys", *keys, "every key of the configuration with its default and meaning");
  add_json(*presets, *json, "print the same as one JSON object");
  add_example(*presets, "mrmf presets --keys");
  commands.run(*presets, [=, &world = commands.world] {
    if (!world.root()) return;
    const auto print = *keys ? (*json ? keys_json : describe_keys) : (*json ? presets_json : presets_text);
    std::cout << print();
  });
}

}  // namespace mrmf
