#include "src/cli/commands.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/values/element_type.hpp"
#include "kernels/errors.hpp"
#include "layers/geometry_and_reach.hpp"
#include "src/rank_planner/rank_planner.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {
namespace {

constexpr double kGiga = 1e9;

SearchSettings search_settings(const Config& config, const DataSample& sample, const RanksOptions& options) {
  SearchSettings settings{.ranks = {options.ranks, options.per_node > 0 ? options.per_node : options.ranks},
                          .memory = options.memory * kGiga,
                          .mini_batch = options.batch,
                          .sample = sample.shape,
                          .samples = options.samples,
                          .validated = options.validated,
                          .on_cpu = options.machine.empty()};
  if (sample.train)
    settings.sample_bytes = static_cast<double>(sample.shape.per_sample() * size_of(sample.train->type));
  if (settings.samples == 0)
    throw ConfigError("plan --ranks needs the number of training samples, which the data would tell; give --samples");
  const double all = settings.samples * settings.sample_bytes;
  settings.streamed =
      config.data.load == LoadRule::stream || (config.data.load == LoadRule::automatic && all > host_memory() / 2);
  return settings;
}

std::unique_ptr<CostModel> costs_of(const Config& config, const RanksOptions& options, const RankLayout& ranks) {
  if (!options.machine.empty()) return roofline_costs(options.machine, config.run.precision);
  const std::string file = options.tables.empty() ? tables_file() : options.tables;
  if (std::error_code none; !std::filesystem::exists(file, none))
    throw DataError(file + " is not there; measure this machine with mrmf bench tables, or give --tables or --machine");
  CostTables tables = read_tables(file);
  const bool of_bf16 = tables.library.find("bf16") != std::string::npos,
             in_bf16 = config.run.precision == Precision::bf16;
  if (of_bf16 != in_bf16)
    std::cerr << "mrmf: warning: " << file
              << ": these times are those of run.precision = " << (of_bf16 ? "\"bf16\"" : "\"fp32\"")
              << ", which the configuration has not; measure it with mrmf bench tables\n";
  if (config.run.deterministic && tables.library.find(kDefaultKernels) == std::string::npos)
    std::cerr << "mrmf: warning: " << file
              << ": these times are those of kernels that trials chose, and run.deterministic takes the default ones; "
                 "measure them with MRMF_CPU_KERNELS=fixed mrmf bench tables --output FILE, and give --tables FILE\n";
  return table_costs(std::move(tables), ranks);
}

}  // namespace

void add_ranks(CLI::App& plan, RanksOptions& options) {
  CLI::Option* ranks =
      plan.add_option("--ranks", options.ranks,
                      "choose the grid for so many ranks: predicted seconds of an epoch, memory, the second best")
          ->check(above_zero());
  const auto with = [&](CLI::Option* option) { option->needs(ranks); };
  with(plan.add_option("--per-node", options.per_node, "ranks on a node; all of them unless given")
           ->check(above_zero()));
  CLI::Option* tables = plan.add_option("--tables", options.tables,
                                        "times of a machine, from mrmf bench tables; this machine's unless given");
  with(tables);
  with(plan.add_option("--machine", options.machine, "model a GPU in place of tables: v100, a100, h100, h200")
           ->excludes(tables));
  with(plan.add_option("--memory", options.memory, "GB that a rank may use")->check(above_zero()));
  with(plan.add_option("--batch", options.batch, "samples of a step over all ranks, of the plan's last phase")
           ->check(above_zero()));
  plan.add_option("--samples", options.samples, "training samples; the data's unless given")->check(above_zero());
  with(plan.add_flag("--layers", options.layers,
                     "a table of every phase's layers: how each is cut, what it takes and sends"));
  plan.add_option("--validation", options.validated, "validation samples; the data's unless given")
      ->check(not_negative());
}

RanksOptions with_counts(RanksOptions options, const Config& config, const DataSample& sample, Comm& world) {
  const std::optional<RunSize> size = run_size(config, sample, world);
  if (!size) return options;
  if (options.samples == 0) options.samples = size->training;
  if (options.validated == 0) options.validated = size->validation;
  return options;
}

RanksProposal plan_ranks(const Config& config, const DataSample& sample, const RanksOptions& options, Comm& world) {
  const SearchSettings settings = search_settings(config, sample, options);
  const std::unique_ptr<CostModel> costs = costs_of(config, options, settings.ranks);
  RunConfig cpu = config.run;
  cpu.device = Device::cpu;
  const auto backend = make_backend(cpu, world);
  const Plan plan = make_plan(config);
  RanksProposal found;
  found.model = costs->description(), found.assumptions = costs->assumptions();
  for (const Phase& phase : plan.phases())
    if (!phase.sums.adds_plainly() && costs->coding(phase.sums.communication, 1) == 0 && settings.ranks.ranks > 1) {
      found.assumptions.push_back("the codes of communication " + to_string(phase.sums.communication) +
                                  " cost no time, which these tables have not measured: start mrmf bench tables again");
      break;
    }
  found.phases = search_grids(*backend, *costs, config, plan, settings);
  found.all = one_grid(found.phases);
  found.splits = search_team_sizes(*backend, *costs, config, plan, settings, found.phases);
  const double all = settings.samples + settings.validated;
  found.by_resolution =
      grid_per_resolution(plan, found.phases, settings.streamed ? 0 : costs->read(all * settings.sample_bytes));
  found.ranks = settings.ranks.ranks, found.axes = sample.shape.axes, found.layers = options.layers;
  if (const std::vector<Grid> grids = found.grids(); !grids.empty()) {
    found.run = proposed_run(plan, found.phases, grids);
    found.run.ranks = settings.ranks.ranks;
    if (!found.splits.empty()) found.run.team_shares = {found.splits.front().dense, found.splits.front().coarse};
    found.config = proposed_config(config, found.run);
  }
  return found;
}

std::vector<Grid> RanksProposal::grids() const {
  constexpr double kWorth = 0.99;  // less would be the predictions' noise
  if (by_resolution && (all.empty() || by_resolution->seconds < kWorth * all.front().seconds))
    return by_resolution->grids;
  return all.empty() ? std::vector<Grid>{} : std::vector{all.front().grid};
}

Config with_grid(const RanksProposal& plan) {
  if (!plan.config)
    throw ConfigError(
        "no grids of these ranks fit all phases of a resolution; see which fit each phase with mrmf plan --ranks");
  return *plan.config;
}

// What `mrmf plan --ranks` prints.

namespace {

std::string percent(double part, double all) { return fmt::format("{:.1f} %", all > 0 ? 100 * part / all : 0); }

std::string grid_text(const Grid& grid, int ranks, int axes) {
  return fmt::format("{} x {} group{}", to_string(grid.blocks, axes), ranks / grid.ranks(),
                     ranks == grid.ranks() ? "" : "s");
}

std::string choice_text(const GridChoice& choice, const RanksProposal& plan) {
  return fmt::format("grid {}, batch {}: {:.4g} s an epoch", grid_text(choice.grid, plan.ranks, plan.axes),
                     choice.batch, choice.seconds());
}

std::string layers_text(const GridLayers& layers) {
  std::string text;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) text += fmt::format("    {}: {}\n", what, names_text(names));
  };
  add("cut into blocks", layers.cut);
  add("of these with messages", layers.exchanged);
  add("gathered from all blocks at", layers.gathered);
  add("computed whole by every rank", layers.whole);
  return text;
}

std::string split_text(const EpochSeconds& e) {
  const double all = e.all();
  const std::string waiting =
      e.waiting > 0 ? fmt::format(" waiting for the slowest rank {},", percent(e.waiting, all)) : "";
  return fmt::format("    compute {},{} messages {}, sums over ranks {}, optimizer {}, batches {}, validation {}\n",
                     percent(e.compute, all), waiting, percent(e.messages, all), percent(e.sums, all),
                     percent(e.update, all), percent(e.load, all), percent(e.validation, all));
}

// How the grid cuts a layer, in the grid's own form.
std::string cut_text(const LayerCost& layer, const GridChoice& choice, int axes) {
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, layer.first) != names.end();
  };
  if (choice.grid.ranks() == 1) return "-";
  if (layer.first.empty() || is_in(choice.prediction.layers.gathered)) return "gathered";
  return is_in(choice.prediction.layers.whole) ? "whole" : to_string(choice.grid.blocks, axes);
}

std::string layer_name(const LayerCost& layer) {
  if (layer.first.empty()) return "output";
  return layer.first == layer.last ? layer.first : layer.first + " to " + layer.last;
}

Shape of_one(Shape shape) {
  shape.n = 1;
  return shape;
}

// A line for each layer, or run of fused layers, of the slowest block. Losses and optimizer belong to no layer.
std::string costs_text(const GridChoice& choice, int axes) {
  double all = 0;
  std::size_t width = 26;
  for (const LayerCost& layer : choice.prediction.costs) {
    all += layer.seconds();
    width = std::max(width, layer_name(layer).size());
  }
  width += 2;
  std::string text = fmt::format("    {:<{}}{:<10}{:>18}{:>18}{:>12}{:>10}{:>8}{:>16}\n", "layer", width, "grid",
                                 "block of output", "of", "compute ms", "wait ms", "share", "messages");
  for (const LayerCost& layer : choice.prediction.costs) {
    const std::string sent =
        layer.messages == 0 ? "-" : fmt::format("{}, {:.3g} MB", layer.messages, 1e-6 * layer.sent);
    text += fmt::format("    {:<{}}{:<10}{:>18}{:>18}{:>12.4g}{:>10.4g}{:>8}{:>16}\n", layer_name(layer), width,
                        cut_text(layer, choice, axes), to_string(of_one(layer.block)), to_string(of_one(layer.whole)),
                        1e3 * layer.compute, 1e3 * layer.message_seconds, percent(layer.seconds(), all), sent);
  }
  return text;
}

std::string phase_text(const PhaseChoices& phase, const RanksProposal& plan) {
  const GridChoice& best = phase.fitting.front();
  const Prediction& p = best.prediction;
  std::string text = fmt::format("{}: {} samples a step over all ranks, {} steps an epoch\n", phase_text(phase.phase),
                                 phase.mini_batch, p.steps);
  text += fmt::format("  {}\n{}", choice_text(best, plan), split_text(p.epoch));
  text += fmt::format("    memory of a rank {:.4g} GB and the program; it sends {:.4g} MB to its group in a step\n",
                      static_cast<double>(p.memory.all()) / kGiga, 1e-6 * p.sent);
  text += layers_text(p.layers);
  if (plan.layers) text += costs_text(best, plan.axes);
  if (p.measured + p.between > 0)
    text += fmt::format("    of the computation {:.0f} % is of measured sizes, {:.0f} % between them\n",
                        100 * p.measured, 100 * p.between);
  if (phase.fitting.size() > 1) {
    const GridChoice& second = phase.fitting[1];
    text += fmt::format("  second best: {} (+{:.1f} %)\n", choice_text(second, plan),
                        100 * (second.seconds() / best.seconds() - 1));
  }
  for (const std::string& line : phase.refused) text += fmt::format("  does not fit: {}\n", line);
  return text;
}

nlohmann::ordered_json grid_json(const Grid& grid, int axes) {
  std::vector<Index> blocks(grid.blocks.end() - axes, grid.blocks.end());
  return blocks;
}

nlohmann::ordered_json grids_json(const std::vector<Grid>& grids, int axes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Grid& grid : grids) all.push_back(grid_json(grid, axes));
  return all;
}

nlohmann::ordered_json layers_json(const GridChoice& choice, int axes) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const LayerCost& layer : choice.prediction.costs)
    all.push_back({{"layer", layer_name(layer)},
                   {"grid", cut_text(layer, choice, axes)},
                   {"block", to_string(of_one(layer.block))},
                   {"of", to_string(of_one(layer.whole))},
                   {"compute_seconds", layer.compute},
                   {"message_seconds", layer.message_seconds},
                   {"messages", layer.messages},
                   {"sent_bytes", layer.sent}});
  return all;
}

nlohmann::ordered_json choice_json(const GridChoice& choice, int axes) {
  const EpochSeconds& e = choice.prediction.epoch;
  const Prediction& p = choice.prediction;
  return {{"grid", grid_json(choice.grid, axes)},
          {"batch", choice.batch},
          {"epoch_seconds", e.all()},
          {"compute_seconds", e.compute},
          {"message_seconds", e.messages},
          {"waiting_seconds", e.waiting},
          {"sum_seconds", e.sums},
          {"optimizer_seconds", e.update},
          {"load_seconds", e.load},
          {"validation_seconds", e.validation},
          {"steps", p.steps},
          {"rank_bytes", p.memory.all()},
          {"sent_bytes_per_step", p.sent},
          {"slowest_block", p.slowest},
          {"measured_share", p.measured},
          {"between_share", p.between},
          {"cut", p.layers.cut},
          {"with_messages", p.layers.exchanged},
          {"gathered", p.layers.gathered},
          {"whole", p.layers.whole}};
}

// The stages whose models two teams train at once.
std::string splits_text(const RanksProposal& plan) {
  constexpr std::size_t kShown = 16;
  std::string text =
      "teams that train at once, by the ranks of the dense and the coarse one, and the seconds of all their epochs\n";
  for (std::size_t i = 0; i < std::min(plan.splits.size(), kShown); ++i) {
    const TeamChoice& split = plan.splits[i];
    std::vector<std::string> stages;
    for (const StageTeams& stage : split.stages)
      stages.push_back(fmt::format("stage {} dense {:.4g} s, coarse {:.4g} s", stage.stage, stage.dense, stage.coarse));
    text +=
        fmt::format("  [{}, {}]: {:.4g} s ({})\n", split.dense, split.coarse, split.seconds(), fmt::join(stages, "; "));
  }
  return text;
}

bool trained_at_once(const RanksProposal& plan, const Phase& phase) {
  return !plan.splits.empty() && std::ranges::any_of(plan.splits.front().stages, [&](const StageTeams& stage) {
    return stage.stage == phase.stage && !phase.last();
  });
}

std::string one_grid_text(const RanksProposal& plan) {
  if (plan.all.empty()) return "no one grid fits all phases\n";
  const OneGrid& one = plan.all.front();
  std::string text = fmt::format("one grid for the whole run: {}, at most {:.4g} s of epochs",
                                 grid_text(one.grid, plan.ranks, plan.axes), one.seconds);
  if (plan.all.size() > 1)
    text += fmt::format("; then {}, {:.4g} s", grid_text(plan.all[1].grid, plan.ranks, plan.axes), plan.all[1].seconds);
  return text + "\n";
}

// "" where one grid is as good.
std::string by_resolution_text(const RanksProposal& plan) {
  if (plan.grids().size() < 2) return "";
  const GridPerResolution& found = *plan.by_resolution;
  std::string text = fmt::format("a grid for each resolution: {}, at most {:.4g} s of epochs",
                                 grids_json(found.grids, plan.axes).dump(), found.seconds - found.reading);
  if (found.reading > 0) text += fmt::format(" and {:.4g} s of reading where the grid changes", found.reading);
  if (!plan.all.empty()) text += fmt::format(", {:.1f} % less", 100 * (1 - found.seconds / plan.all.front().seconds));
  return text + "\n";
}

std::string keys_text(const RanksProposal& plan) {
  if (!plan.config) return "";
  std::string text;
  for (const std::string& key : proposed_keys(*plan.config, plan.run, plan.axes)) text += "  " + key + "\n";
  return text;
}

}  // namespace

std::string to_text(const RanksProposal& plan) {
  std::string text =
      fmt::format("\n{} for {} ranks, by {}\n", plan.splits.empty() ? "grids" : "teams", plan.ranks, plan.model);
  for (const std::string& line : plan.assumptions) text += "  assumed: " + line + "\n";
  if (!plan.splits.empty()) text += splits_text(plan);
  for (const PhaseChoices& phase : plan.phases)
    if (!trained_at_once(plan, phase.phase)) text += phase_text(phase, plan);
  if (plan.splits.empty()) text += one_grid_text(plan) + by_resolution_text(plan);
  return text + keys_text(plan);
}

nlohmann::ordered_json to_json(const RanksProposal& plan) {
  nlohmann::ordered_json phases = nlohmann::ordered_json::array(), all = nlohmann::ordered_json::array(),
                         splits = nlohmann::ordered_json::array(), by_resolution = nullptr;
  for (const PhaseChoices& phase : plan.phases) {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    for (const GridChoice& choice : phase.fitting) choices.push_back(choice_json(choice, plan.axes));
    phases.push_back({{"phase", phase_text(phase.phase)},
                      {"mini_batch", phase.mini_batch},
                      {"epochs", phase.phase.stop.epochs},
                      {"grids", choices},
                      {"refused", phase.refused}});
    if (plan.layers) phases.back()["layers"] = layers_json(phase.fitting.front(), plan.axes);
  }
  for (const OneGrid& one : plan.all)
    all.push_back({{"grid", grid_json(one.grid, plan.axes)}, {"seconds", one.seconds}});
  for (const TeamChoice& split : plan.splits) {
    splits.push_back({{"split", {split.dense, split.coarse}}, {"seconds", split.seconds()}});
    for (const StageTeams& stage : split.stages)
      splits.back()["stages"].push_back(
          {{"stage", stage.stage}, {"dense_seconds", stage.dense}, {"coarse_seconds", stage.coarse}});
  }
  if (plan.by_resolution)
    by_resolution = {{"grids", grids_json(plan.by_resolution->grids, plan.axes)},
                     {"seconds", plan.by_resolution->seconds},
                     {"reading_seconds", plan.by_resolution->reading}};
  nlohmann::ordered_json keys = nlohmann::ordered_json::array();
  if (plan.config) keys = proposed_keys(*plan.config, plan.run, plan.axes);
  return {{"ranks", plan.ranks}, {"costs", plan.model}, {"assumptions", plan.assumptions},
          {"phases", phases},    {"whole_run", all},    {"by_resolution", by_resolution},
          {"splits", splits},    {"keys", keys}};
}

}  // namespace mrmf
