#include "src/cli/plan_ranks.hpp"

#include <filesystem>

#include "io/element.hpp"
#include "kernels/check.hpp"
#include "src/cli/commands.hpp"
#include "src/planner/cost_tables.hpp"
#include "src/planner/roofline.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"

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
  return table_costs(read_tables(file), ranks);
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

}  // namespace mrmf
