#include "src/cli/plan_ranks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "io/element.hpp"
#include "kernels/check.hpp"
#include "layers/geometry.hpp"
#include "src/planner/cost_tables.hpp"
#include "src/planner/roofline.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host.hpp"

namespace mrmf {
namespace {

constexpr double kGiga = 1e9;

SearchSettings search_settings(const Config& config, const DataSample& sample, const RanksOptions& options,
                               Comm& world) {
  SearchSettings settings{.ranks = {options.ranks, options.per_node > 0 ? options.per_node : options.ranks},
                          .memory = options.memory * kGiga,
                          .mini_batch = options.batch,
                          .sample = sample.shape,
                          .samples = options.samples,
                          .validated = options.validated};
  if (sample.from_data) {
    const DatasetShape train = headers_of(config.data.train, world);
    if (settings.samples == 0) settings.samples = static_cast<double>(train.samples);
    if (settings.validated == 0 && absent(config.data.validation.files).empty())
      settings.validated = static_cast<double>(headers_of(config.data.validation, world).samples);
    settings.sample_bytes = static_cast<double>(sample.shape.per_sample() * size_of(train.type));
  }
  if (settings.samples == 0)
    throw ConfigError("plan --ranks needs the number of training samples, which the data would tell; give --samples");
  const double all = settings.samples * settings.sample_bytes;
  settings.streamed =
      config.data.load == LoadRule::stream || (config.data.load == LoadRule::automatic && all > host_memory() / 2);
  return settings;
}

std::unique_ptr<CostModel> costs_of(const Config& config, const RanksOptions& options, const RankPlaces& ranks) {
  if (!options.machine.empty()) return roofline_costs(options.machine, config.run.precision);
  const std::string file = options.tables.empty() ? tables_file() : options.tables;
  if (std::error_code none; !std::filesystem::exists(file, none))
    throw DataError(file + " is not there; measure this machine with mrmf bench tables, or give --tables or --machine");
  return table_costs(read_tables(file), ranks);
}

std::string percent(double part, double all) { return fmt::format("{:.1f} %", all > 0 ? 100 * part / all : 0); }

std::string grid_text(const Grid& grid, int ranks, int axes) {
  return fmt::format("{} x {} group{}", to_string(grid.blocks, axes), ranks / grid.ranks(),
                     ranks == grid.ranks() ? "" : "s");
}

std::string choice_text(const GridChoice& choice, const RanksPlan& plan) {
  return fmt::format("grid {}, batch {}: {:.4g} s an epoch", grid_text(choice.grid, plan.ranks, plan.axes),
                     choice.batch, choice.seconds());
}

// "conv1 to relu4", or names one by one where they are not neighbours.
std::string names_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  if (names.size() <= kShown) return fmt::format("{}", fmt::join(names, ", "));
  return fmt::format("{}, {}, ..., {} ({})", names[0], names[1], names.back(), names.size());
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
  return fmt::format("    compute {}, messages {}, sums over ranks {}, optimizer {}, batches {}, validation {}\n",
                     percent(e.compute, all), percent(e.messages, all), percent(e.sums, all), percent(e.update, all),
                     percent(e.load, all), percent(e.validation, all));
}

std::string phase_text(const PhaseChoices& phase, const RanksPlan& plan) {
  const GridChoice& best = phase.fitting.front();
  const Prediction& p = best.prediction;
  std::string text = fmt::format("{}: {} samples a step over all ranks, {} steps an epoch\n", place_text(phase.phase),
                                 phase.mini_batch, p.steps);
  text += fmt::format("  {}\n{}", choice_text(best, plan), split_text(p.epoch));
  text += fmt::format("    memory of a rank {:.4g} GB and the program; it sends {:.4g} MB to its group in a step\n",
                      static_cast<double>(p.memory.all()) / kGiga, 1e-6 * p.sent);
  text += layers_text(p.layers);
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

// The last phase's batch with this grid.
Index last_batch(const RanksPlan& plan, const Grid& grid) {
  return plan.phases.back().mini_batch * grid.ranks() / plan.ranks;
}

nlohmann::ordered_json grid_json(const Grid& grid, int axes) {
  std::vector<Index> blocks(grid.blocks.end() - axes, grid.blocks.end());
  return blocks;
}

nlohmann::ordered_json choice_json(const GridChoice& choice, int axes) {
  const EpochSeconds& e = choice.prediction.epoch;
  const Prediction& p = choice.prediction;
  return {{"grid", grid_json(choice.grid, axes)},
          {"batch", choice.batch},
          {"epoch_seconds", e.all()},
          {"compute_seconds", e.compute},
          {"message_seconds", e.messages},
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

}  // namespace

void add_ranks(CLI::App& plan, RanksOptions& options) {
  CLI::Option* ranks =
      plan.add_option("--ranks", options.ranks,
                      "choose the grid for so many ranks: predicted seconds of an epoch, memory, the second best")
          ->check(CLI::PositiveNumber);
  const auto with = [&](CLI::Option* option) { option->needs(ranks); };
  with(plan.add_option("--per-node", options.per_node, "ranks on a node; all of them unless given")
           ->check(CLI::PositiveNumber));
  CLI::Option* tables = plan.add_option("--tables", options.tables,
                                        "times of a machine, from mrmf bench tables; this machine's unless given");
  with(tables);
  with(plan.add_option("--machine", options.machine, "model a GPU in place of tables: v100, a100, h100, h200")
           ->excludes(tables));
  with(plan.add_option("--memory", options.memory, "GB that a rank may use")->check(CLI::PositiveNumber));
  with(plan.add_option("--batch", options.batch, "samples of a step over all ranks, of the plan's last phase")
           ->check(CLI::PositiveNumber));
  with(plan.add_option("--samples", options.samples, "training samples; the data's unless given")
           ->check(CLI::PositiveNumber));
  with(plan.add_option("--validation", options.validated, "validation samples; the data's unless given")
           ->check(CLI::NonNegativeNumber));
}

RanksPlan plan_ranks(const Config& config, const DataSample& sample, const RanksOptions& options, Comm& world) {
  const SearchSettings settings = search_settings(config, sample, options, world);
  const std::unique_ptr<CostModel> costs = costs_of(config, options, settings.ranks);
  RunConfig cpu = config.run;
  cpu.device = Device::cpu;
  const auto backend = make_backend(cpu, world);
  const Plan plan = make_plan(config);
  RanksPlan found{
      costs->description(), costs->assumptions(), search_grids(*backend, *costs, config, plan, settings), {},
      settings.ranks.ranks, sample.shape.axes};
  found.all = one_grid(found.phases);
  return found;
}

std::string to_text(const RanksPlan& plan) {
  std::string text = fmt::format("\ngrids for {} ranks, by {}\n", plan.ranks, plan.model);
  for (const std::string& line : plan.assumptions) text += "  assumed: " + line + "\n";
  for (const PhaseChoices& phase : plan.phases) text += phase_text(phase, plan);
  if (plan.all.empty()) return text + "no one grid fits all phases; give run.grid one for each resolution\n";
  const OneGrid& one = plan.all.front();
  text += fmt::format("one grid for the whole run: {}, at most {:.4g} s of epochs",
                      grid_text(one.grid, plan.ranks, plan.axes), one.seconds);
  if (plan.all.size() > 1)
    text += fmt::format("; then {}, {:.4g} s", grid_text(plan.all[1].grid, plan.ranks, plan.axes), plan.all[1].seconds);
  return text + fmt::format("\n  run.grid = {}\n  training.batch = {}\n", grid_json(one.grid, plan.axes).dump(),
                            last_batch(plan, one.grid));
}

nlohmann::ordered_json to_json(const RanksPlan& plan) {
  nlohmann::ordered_json phases = nlohmann::ordered_json::array(), all = nlohmann::ordered_json::array();
  for (const PhaseChoices& phase : plan.phases) {
    nlohmann::ordered_json choices = nlohmann::ordered_json::array();
    for (const GridChoice& choice : phase.fitting) choices.push_back(choice_json(choice, plan.axes));
    phases.push_back({{"phase", place_text(phase.phase)},
                      {"mini_batch", phase.mini_batch},
                      {"epochs", phase.phase.stop.epochs},
                      {"grids", choices},
                      {"refused", phase.refused}});
  }
  for (const OneGrid& one : plan.all)
    all.push_back({{"grid", grid_json(one.grid, plan.axes)}, {"seconds", one.seconds}});
  return {{"ranks", plan.ranks},
          {"costs", plan.model},
          {"assumptions", plan.assumptions},
          {"phases", phases},
          {"whole_run", all}};
}

Config with_grid(const Config& config, const RanksPlan& plan) {
  if (plan.all.empty())
    throw ConfigError(
        "no one grid of these ranks fits all phases; give run.grid one for each resolution, those that plan --ranks "
        "prints");
  Config result = config;
  const Grid& grid = plan.all.front().grid;
  result.run.grid = {grid.blocks};
  result.training.batch = static_cast<int>(last_batch(plan, grid));
  return result;
}

}  // namespace mrmf
