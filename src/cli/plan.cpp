// `mrmf plan`: the phases and fusions of a run, before anything runs.
#include "src/plan/plan.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/check.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/data_sample.hpp"
#include "src/cli/plan_ranks.hpp"
#include "src/config/config.hpp"
#include "src/method/auto_schedule.hpp"

namespace mrmf {
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

std::string cost_text(const Config& config, const Plan& plan, const Shape& sample) {
  return fmt::format("cost: {}{:.2f} epochs at full resolution, by arithmetic on samples of {}\n",
                     may_end_early(plan) ? "at most " : "", plan_cost(config, plan, sample), to_string(sample));
}

std::string auto_text(const AutoSchedule& chosen) {
  std::string text = fmt::format(
      "baseline of training.epochs = {}: {:.2f}, so {:.0f} % are saved if both end at the "
      "same loss\n",
      chosen.baseline_cost, chosen.baseline_cost, 100 * (1 - chosen.cost / chosen.baseline_cost));
  for (const std::string& reason : chosen.reasons) text += "auto: " + reason + "\n";
  return text;
}

// The plan as the run folder keeps it, with what the text says of its cost.
std::string plan_json(const Config& config, const Plan& plan, const std::optional<DataSample>& sample,
                      const std::optional<AutoSchedule>& chosen, const std::optional<RanksPlan>& ranks) {
  auto json = nlohmann::json::parse(to_json(plan));
  if (sample) {
    json["sample"] = to_string(sample->shape);
    json["cost_epochs"] = plan_cost(config, plan, sample->shape);
    json["may_end_early"] = may_end_early(plan);
  }
  if (chosen) json["auto"] = {{"baseline_cost_epochs", chosen->baseline_cost}, {"reasons", chosen->reasons}};
  if (ranks) json["ranks"] = to_json(*ranks);
  return json.dump(2) + "\n";
}

void print_plan(const PlanOptions& options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const std::optional<DataSample> sample = find_sample(config, options.sample, world);
  std::optional<AutoSchedule> chosen;
  if (config.method.name == MethodName::automatic) {
    chosen = choose_schedule(config, sample->shape);
    config = chosen->config;
  }
  const Plan plan = make_plan(config);
  print_warnings(config_warnings(config), world);
  std::optional<RanksPlan> ranks;
  if (options.ranks.ranks > 0) {
    if (!sample) throw ConfigError("plan --ranks needs the shape of a sample; correct data.files, or give --sample");
    ranks = plan_ranks(config, *sample, options.ranks, world);
  }
  if (!world.root()) return;
  if (options.json) {
    std::cout << plan_json(config, plan, sample, chosen, ranks);
  } else if (options.toml) {
    std::cout << to_toml(ranks ? with_grid(*ranks) : config);
  } else {
    std::cout << to_text(plan);
    if (sample) std::cout << cost_text(config, plan, sample->shape);
    if (chosen) std::cout << auto_text(*chosen);
    if (ranks) std::cout << to_text(*ranks);
  }
}

}  // namespace

void add_plan(Subcommands& commands) {
  CLI::App* plan = commands.app.add_subcommand(
      "plan", "print the phases and fusions of a run: what is trained, fused and finetuned, and until when");
  auto options = std::make_shared<PlanOptions>();
  add_config(*plan, options->config, options->overrides);
  CLI::Option* json =
      plan->add_flag("--json", options->json, "as one JSON object, the form the run folder keeps, and the cost");
  plan->add_flag("--toml", options->toml, "the whole configuration, with what \"auto\" and --ranks chose written out")
      ->excludes(json);
  add_sample(*plan, options->sample);
  add_ranks(*plan, options->ranks);
  add_example(*plan, "mrmf plan mine.toml\nmrmf plan mine.toml --ranks 2 --machine h200");
  commands.run(*plan, [=, &world = commands.world] { print_plan(*options, world); });
}

}  // namespace mrmf
