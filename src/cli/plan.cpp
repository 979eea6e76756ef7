// `mrmf plan`, but for its option --ranks, which is in plan_ranks.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/errors.hpp"
#include "layers/network.hpp"
#include "layers/partition.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/data/data.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/plan.hpp"
#include "src/run/model_file.hpp"
#include "src/run/run_cost.hpp"
#include "src/tournament/tournament.hpp"
#include "src/training/gradient_compression.hpp"
#include "src/training/memory_estimate_and_training_checks.hpp"

namespace mrmf {

// What `mrmf plan` says of sums over ranks: the bytes that each rank sends in a step.

/// The sum of the phases of a plan that have one resolution and one way, as the records will count it
/// (EpochRecord::sent_bytes).
struct PlannedSum {
  Extent resolution{1, 1, 1};
  SumSettings sums{};
  double sent = 0;     ///< by the configured way
  double plain = 0;    ///< in float32
  double momenta = 0;  ///< whenever momenta are averaged; 0: they never are
};

/// Empty for one rank, and where ranks share samples or train in teams. ConfigError for momenta of parameters that the
/// network does not have.
std::vector<PlannedSum> planned_sums(const Config& config, const Plan& plan, const Shape& sample, int ranks);

std::string sums_text(const std::vector<PlannedSum>& sums, const Plan& plan, int ranks);
nlohmann::json sums_json(const std::vector<PlannedSum>& sums, const Plan& plan);

namespace {

std::string megabytes(double bytes) { return fmt::format("{:.3g} MB", 1e-6 * bytes); }

}  // namespace

std::vector<PlannedSum> planned_sums(const Config& config, const Plan& plan, const Shape& sample, int ranks) {
  if (ranks <= 1 || plan.shares_samples() || std::ranges::any_of(plan.stages, &Stage::at_once)) return {};
  const bool shards = shard_by_shard(config, config.run.device != Device::cuda);
  const auto backend = make_reference_backend();
  std::vector<PlannedSum> planned;
  for (const Phase& phase : plan.phases()) {
    const auto same = [&](const PlannedSum& sum) {
      return sum.resolution == phase.resolution && sum.sums == phase.sums;
    };
    if (std::ranges::any_of(planned, same)) continue;
    const Network network(*backend, network_settings(config, plan, sample, phase.resolution));
    const double values = parameter_count(network);
    const int workers = shards && !phase.sums.adds_plainly() ? config.data.shards / ranks : 1;
    require_averaged_tensors(phase.sums.momenta, network);
    planned.push_back({phase.resolution, phase.sums, sum_bytes(phase.sums.communication, values, ranks, workers),
                       sum_bytes(Communication::fp32, values, ranks),
                       sum_bytes(Communication::fp32, averaged_count(phase.sums.momenta, network), ranks)});
  }
  return planned;
}

std::string sums_text(const std::vector<PlannedSum>& sums, const Plan& plan, int ranks) {
  if (sums.empty()) return "";
  std::vector<std::string> each;
  for (const PlannedSum& sum : sums) {
    std::string text = fmt::format("{} in {}", megabytes(sum.sent), to_string(sum.sums.communication));
    if (sums.size() > 1) text += " at " + resolution_text(sum.resolution, plan.last.axes);
    if (sum.sent != sum.plain) text += fmt::format(" (fp32: {})", megabytes(sum.plain));
    if (sum.momenta > 0) text += fmt::format(", and {} when momenta are averaged", megabytes(sum.momenta));
    each.push_back(text);
  }
  const bool chooses = std::ranges::any_of(
      sums, [](const PlannedSum& sum) { return sum.sums.communication == Communication::automatic; });
  return fmt::format("sums: each of {} ranks sends in a step {}{}\n", ranks, fmt::join(each, "; "),
                     chooses ? "; auto is counted as fp32, until training has measured" : "");
}

nlohmann::json sums_json(const std::vector<PlannedSum>& sums, const Plan& plan) {
  nlohmann::json all = nlohmann::json::array();
  for (const PlannedSum& sum : sums)
    all.push_back({{"resolution", factors(sum.resolution, plan.last.axes)},
                   {"communication", to_string(sum.sums.communication)},
                   {"sent_bytes", sum.sent},
                   {"fp32_bytes", sum.plain},
                   {"momenta_bytes", sum.momenta}});
  return all;
}

// `mrmf plan`: the phases and fusions of a run, before anything runs.

namespace {

struct PlanOptions {
  std::string config, sample;
  std::vector<std::string> overrides;
  bool json = false, toml = false;
  RanksOptions ranks;
};

// Without data the plan is known, its cost is not; only "auto" cannot do without. Data that are there are to be
// readable.
std::optional<DataSample> find_sample(const Config& config, const std::string& given, Comm& world) {
  try {
    return data_sample(config, given, world);
  } catch (const DataError&) {
    if (config.method.name == MethodName::automatic || !given.empty() || absent(config.data.train.files).empty()) throw;
    return {};
  }
}

// What a run of this configuration costs, and what the baseline would, where it is another run.
struct Costs {
  RunCost run;
  std::optional<RunCost> baseline{};
  bool baseline_may_end_early = false;
  std::vector<PlannedSum> sums{};
  int ranks = 1;
};

// Whether training.epochs says what the baseline would get. Its default does not, beside lengths for each role.
bool epochs_given(const Config& config) { return config.training.epochs != TrainingConfig{}.epochs; }

// The same by the options. None where nobody knows the number of samples.
std::optional<RunSize> size_of(const Config& config, const RanksOptions& options, const Comm& world) {
  if (options.samples == 0) return {};
  RunSize size{options.samples, options.validated, world.size()};
  if (config.run.ranks > 0) size.ranks = config.run.ranks;
  if (options.ranks > 0) size.ranks = options.ranks;
  return size;
}

// A trainer's share of a tournament's run.
std::optional<RunSize> of_trainer(std::optional<RunSize> size, const Config& config) {
  const int trainers = config.tournament.trainers;
  if (!size || trainers == 1) return size;
  if (config.tournament.rows == TrainerRows::part) size->training /= trainers;
  size->training *= 1 - config.tournament.held_out;
  size->ranks = std::max(1, size->ranks / trainers);
  return size;
}

// "auto" counts steps of the mini-batch that ranks are planned for.
void set_batch(Config& config, const RanksOptions& options) {
  if (options.batch == 0) return;
  const Index groups = std::max<Index>(1, options.ranks / product(config.run.grid.front()));
  config.training.batch = static_cast<int>(std::max<Index>(1, options.batch / groups));
}

// The same training at the last resolution alone.
Config without_method(Config config) {
  const MethodConfig method = std::exchange(config.method, {});
  config.method.axes = method.axes;
  config.method.resolutions = {method.resolutions.back()};
  config.run.grid = {config.run.grid.back()};
  return config;
}

// The baseline beside what was planned for ranks: with its last phase's batch and grid.
Config beside(Config baseline, const std::optional<RanksProposal>& ranks) {
  if (!ranks || !ranks->config) return baseline;
  baseline.training.batch = ranks->config->training.batch;
  baseline.run.grid = {ranks->config->run.grid.back()};
  return baseline;
}

std::string cost_text(const RunCost& cost, const Plan& plan, const Shape& sample) {
  std::string text = fmt::format("cost: {}{:.2f} epochs at full resolution, by arithmetic on samples of {}",
                                 may_end_early(plan) ? "at most " : "", cost.epochs, to_string(sample));
  if (cost.statistics > 0)
    text += fmt::format("; {:.2f} of them for the recalibration of batch norms", cost.statistics);
  if (cost.probes > 0) text += fmt::format("; {:.2f} of them for probes", cost.probes);
  if (!cost.complete())
    text +=
        fmt::format("; without {}{}{}, because the number of samples is not known (--samples)",
                    cost.without_statistics ? "recalibration of batch norms" : "",
                    cost.without_statistics && cost.without_probes ? " and " : "", cost.without_probes ? "probes" : "");
  return text + "\n";
}

// `bound`: what is saved is that at least, because the run may end early.
std::string saved_text(double saved, bool bound) {
  const int share = static_cast<int>(std::lround(100 * std::abs(saved)));
  if (saved < 0) return fmt::format("so {} % more are spent{}", share, bound ? " at most" : "");
  return fmt::format("so {}{} % are saved if both end at the same loss", bound ? "at least " : "", share);
}

std::string baseline_text(const Costs& costs, const Plan& plan, int epochs) {
  const bool early = costs.baseline_may_end_early;
  return fmt::format("baseline of training.epochs = {}: {}{:.2f}, {}\n", epochs, early ? "at most " : "",
                     costs.baseline->epochs,
                     early ? "and how much is saved depends on where either ends"
                           : saved_text(1 - costs.run.epochs / costs.baseline->epochs, may_end_early(plan)));
}

// The plan as the run folder keeps it, with what the text says of its cost.
std::string plan_json(const Plan& plan, const std::optional<DataSample>& sample, const std::optional<Costs>& costs,
                      const std::optional<AutoSchedule>& chosen, const std::optional<RanksProposal>& ranks,
                      const std::optional<TournamentOutlook>& tournament) {
  auto json = nlohmann::json::parse(to_json(plan));
  if (costs) {
    json["sample"] = to_string(sample->shape);
    json["cost_epochs"] = costs->run.epochs;
    json["cost_complete"] = costs->run.complete();
    json["statistics_cost_epochs"] = costs->run.statistics;
    json["probes_cost_epochs"] = costs->run.probes;
    json["may_end_early"] = may_end_early(plan);
    if (!costs->sums.empty()) json["sums"] = sums_json(costs->sums, plan);
  }
  if (costs && costs->baseline) json["baseline_cost_epochs"] = costs->baseline->epochs;
  if (chosen) json["auto"]["reasons"] = chosen->reasons;
  if (chosen && chosen->detail && chosen->detail->known())
    json["auto"]["detail"] = {{"samples", chosen->detail->samples},
                              {"unexplained_without_finest", chosen->detail->without_finest},
                              {"unexplained_with_finest", chosen->detail->with_finest},
                              {"loses", chosen->detail->loses()}};
  if (ranks) json["ranks"] = to_json(*ranks);
  if (tournament)
    json["tournament"] = {{"trainers", tournament->trainers},      {"trained_rows", tournament->trained},
                          {"held_out_rows", tournament->held_out}, {"visitor_bytes", tournament->visitor_bytes},
                          {"sent_bytes", tournament->sent_bytes},  {"meeting_cost_epochs", tournament->meeting_cost}};
  return json.dump(2) + "\n";
}

// What training would refuse in the batches; none where the number of ranks is not one that the plan needs, so that
// another is meant.
std::vector<std::string> refusals(const Config& config, const Plan& plan, const Shape& sample, const RunSize& size) {
  const bool teams = std::ranges::any_of(plan.stages, &Stage::at_once);
  const auto suits = [&](const Extent& resolution) { return size.ranks % Grid{plan.grid(resolution)}.ranks() == 0; };
  if ((teams && size.ranks < 2) || !std::ranges::all_of(plan.resolutions(), suits)) return {};
  DatasetShape shape;
  shape.samples = static_cast<Index>(size.training);
  shape.sample = sample;
  try {
    check_batches(plan, config, shape, size.ranks);
  } catch (const ConfigError& error) {
    return {fmt::format("training on {} rank{} would refuse this: {}", size.ranks, size.ranks == 1 ? "" : "s",
                        error.what())};
  }
  return {};
}

// What there is to print.
struct PlanReport {
  Config config;  ///< with what "auto" chose
  Plan plan;
  std::optional<DataSample> sample{};
  std::optional<AutoSchedule> chosen{};
  std::optional<Costs> costs{};
  std::optional<RanksProposal> ranks{};
  std::optional<TournamentOutlook> tournament{};
};

// What the run costs, and the baseline beside it. `asked`: the configuration before "auto" chose.
Costs costs_of(const Config& asked, const PlanReport& report, const std::optional<RunSize>& size, int ranks) {
  const Shape& sample = report.sample->shape;
  const Config& run = report.ranks && report.ranks->config ? *report.ranks->config : report.config;
  const Plan plan = make_plan(run);
  Costs costs{.run = run_cost(run, plan, sample, size)};
  costs.ranks = ranks;
  costs.sums = planned_sums(run, plan, sample, ranks);
  if (!report.chosen && (run.method.name == MethodName::baseline || !epochs_given(report.config))) return costs;
  const Config baseline = beside(report.chosen ? baseline_of(asked) : without_method(report.config), report.ranks);
  const Plan alone = make_plan(baseline);
  costs.baseline = run_cost(baseline, alone, sample, size);
  costs.baseline_may_end_early = may_end_early(alone);
  return costs;
}

// Collective.
PlanReport make_report(const PlanOptions& options, Comm& world) {
  PlanReport report;
  Config config = read_config(options.config, options.overrides);
  report.sample = find_sample(config, options.sample, world);
  const std::optional<DataSample>& sample = report.sample;
  const RanksOptions counted = sample ? with_counts(options.ranks, config, *sample, world) : options.ranks;
  const std::optional<RunSize> size = size_of(config, counted, world);
  if (sample && sample->train) {
    require_channels(config.data, sample->shape);
    if (absent(config.data.validation.files).empty())
      require_distinct_rows(config.data, *sample->train, headers_of(config.data.validation, world), nullptr, world);
  }
  if (config.method.name == MethodName::automatic) set_batch(config, options.ranks);
  const Config asked = config;
  if (config.method.name == MethodName::automatic) {
    report.chosen = schedule_for(config, *sample, size, world);
    config = report.chosen->config;
  }
  const Plan plan = report.plan = make_plan(config);
  const int meant = options.ranks.ranks > 0 ? options.ranks.ranks : std::max(config.run.ranks, world.size());
  require_ways(plan, config, meant, config.run.device != Device::cuda && options.ranks.machine.empty());
  print_warnings(config_warnings(config), world);
  if (sample && sample->train) {
    Config resolved = config;
    resolve_labels(resolved, *sample->train, plan.resolutions());
    print_warnings(sample_warnings(config, sample->shape), world);
  }
  if (options.ranks.ranks > 0) {
    if (!sample) throw ConfigError("plan --ranks needs the shape of a sample; correct data.files, or give --sample");
    report.ranks = plan_ranks(config, *sample, counted, world);
  } else if (sample && size) {
    print_warnings(refusals(config, plan, sample->shape, *of_trainer(size, config)), world);
  }
  report.config = config;
  if (sample) report.costs = costs_of(asked, report, of_trainer(size, config), meant);
  if (sample)
    report.tournament = tournament_outlook(config, plan, sample->shape,
                                           size ? std::optional(static_cast<Index>(size->training)) : std::nullopt);
  return report;
}

void print_plan(const PlanOptions& options, Comm& world) {
  const PlanReport report = make_report(options, world);
  const auto& [config, plan, sample, chosen, costs, ranks, tournament] = report;
  if (!world.root()) return;
  if (options.json) {
    std::cout << plan_json(plan, sample, costs, chosen, ranks, tournament);
  } else if (options.toml) {
    std::cout << to_toml(ranks ? with_grid(*ranks) : config);
  } else {
    std::cout << to_text(plan);
    if (costs) std::cout << cost_text(costs->run, plan, sample->shape);
    if (costs) std::cout << sums_text(costs->sums, plan, costs->ranks);
    if (costs && costs->baseline && plan.method != MethodName::baseline)
      std::cout << baseline_text(*costs, plan, config.training.epochs);
    if (chosen)
      for (const std::string& reason : chosen->reasons) std::cout << "auto: " << reason << "\n";
    if (tournament) std::cout << to_text(*tournament);
    if (ranks) std::cout << to_text(*ranks);
  }
}

}  // namespace

void add_plan(Subcommands& commands) {
  CLI::App* plan = commands.app.add_subcommand(
      "plan",
      "print what a run will train, until when, and what that costs beside the baseline; with --ranks, how the ranks "
      "share the work");
  auto options = std::make_shared<PlanOptions>();
  add_config(*plan, options->config, options->overrides);
  CLI::Option* json = plan->add_flag("--json", options->json,
                                     "print the plan as one JSON object, as the run folder keeps it, and the cost");
  plan->add_flag("--toml", options->toml,
                 "print the whole configuration, with what \"auto\" and --ranks chose written out")
      ->excludes(json);
  add_sample(*plan, options->sample);
  add_ranks(*plan, options->ranks);
  add_example(*plan, "mrmf plan mine.toml\nmrmf plan mine.toml --ranks 2 --machine h200");
  commands.run(*plan, [=, &world = commands.world] { print_plan(*options, world); });
}

}  // namespace mrmf
