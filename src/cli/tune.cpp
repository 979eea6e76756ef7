// `mrmf tune`: a tuned baseline for a fraction of its cost.
#include "src/method/tune.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/output_file.hpp"
#include "kernels/check.hpp"
#include "src/cli/commands.hpp"
#include "src/data/normalise.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

struct TuneOptions {
  std::string config, folder, output;
  std::vector<std::string> overrides;
  std::vector<double> rates;
  std::vector<int> batches;
  std::vector<std::string> rules{"cosine", "linear"};
  Replace replace = Replace::nothing;
  bool json = false;
};

// Around what the configuration has. Batches are of all ranks that the run is for.
void fill_in(TuneOptions& options, const Config& config, int batch) {
  const double rate = config.training.optimizer.learning_rate;
  if (options.rates.empty()) options.rates = {rate / 4, rate / 2, rate, 2 * rate};
  if (options.batches.empty()) {
    options.batches = {batch, 2 * batch};
    if (batch >= 2) options.batches.insert(options.batches.begin(), batch / 2);
  }
}

std::vector<Trial> grid(const TuneOptions& options) {
  const std::vector<std::string> words = words_of<RateRule>();
  std::vector<Trial> trials;
  for (const std::string& rule : options.rules)
    for (const int batch : options.batches)
      for (const double rate : options.rates)
        trials.push_back({rate, batch, static_cast<RateRule>(std::ranges::find(words, rule) - words.begin())});
  return trials;
}

std::string heading(const Rung& rung, int axes) {
  return fmt::format("{} x {}", resolution_text(rung.resolution, axes), rung.epochs);
}

// A line per trial, from best to worst; a column per rung.
std::string table(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  std::string text = fmt::format("{:>10} {:>6}  {:<9}", "rate", "batch", "rule");
  for (const Rung& rung : rungs) text += fmt::format(" {:>14}", heading(rung, axes));
  text += "\n";
  for (const Trial& trial : trials) {
    text += fmt::format("{:>10.3g} {:>6}  {:<9}", trial.learning_rate, trial.batch, to_string(trial.rule));
    for (const double loss : trial.losses) text += fmt::format(" {:>14.5g}", loss);
    text += "\n";
  }
  return text;
}

double all_cost(const std::vector<Rung>& rungs) {
  double cost = 0;
  for (const Rung& rung : rungs) cost += rung.trials * rung.cost;
  return cost;
}

// A trial's losses as far as it got; null where it diverged.
std::string tune_json(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes,
                      const std::string& best) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  Json json{{"rungs", Json::array()}, {"trials", Json::array()}};
  for (std::size_t r = 0; r < rungs.size(); ++r)
    json["rungs"].push_back({{"resolution", factors(rungs[r].resolution, axes)},
                             {"epochs", rungs[r].epochs},
                             {"trials", rungs[r].trials},
                             {"cost_epochs", rungs[r].cost},
                             {"agreement", number(rank_agreement(trials, r, rungs.size() - 1))}});
  for (const Trial& trial : trials) {
    Json losses = Json::array();
    for (const double loss : trial.losses) losses.push_back(number(loss));
    json["trials"].push_back({{"learning_rate", trial.learning_rate},
                              {"batch", trial.batch},
                              {"rule", to_string(trial.rule)},
                              {"losses", losses}});
  }
  json["cost_epochs"] = all_cost(rungs);
  json["best"] = best;
  return json.dump(2) + "\n";
}

std::string summary(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  const double cost = all_cost(rungs), all = rungs.front().trials * rungs.back().cost;
  std::string text = fmt::format(
      "cost: {:.1f} epochs at full resolution by arithmetic; all trials at full length: {:.1f}\n", cost, all);
  for (std::size_t r = 0; r + 1 < rungs.size(); ++r) {
    const double agreement = rank_agreement(trials, r, rungs.size() - 1);
    text += fmt::format("order of {} against {}: {}\n", heading(rungs[r], axes), heading(rungs.back(), axes),
                        std::isnan(agreement)
                            ? "fewer than three trials have both"
                            : fmt::format("Spearman {:.2f} over {} trials", agreement, rungs.back().trials));
  }
  return text;
}

void run_tuning(TuneOptions options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const DatasetShape data = inspect_dataset(config.data.train, world);
  settle_normalisation(config, data, world);
  const int ranks = config.run.ranks > 0 ? config.run.ranks : 1;
  fill_in(options, config, config.training.batch * ranks);
  TuneSettings settings{config, grid(options), options.folder.empty() ? config.run.folder + "-tune" : options.folder};
  settle_axes(settings.config.model.layers, data.sample.axes);
  const std::string best = options.output.empty() ? settings.folder + "/best.toml" : options.output;
  const std::vector<Rung> rungs = plan_rungs(settings.config, data.sample, static_cast<int>(settings.trials.size()));
  collective_try(world, [&] {
    if (!world.root()) return;
    std::filesystem::create_directories(settings.folder);
    require_output(best, options.replace, {options.config});
  });
  const std::vector<Trial> trials = tune(settings, rungs, world, [&](const std::string& line) {
    (options.json ? std::cerr : std::cout) << line << std::endl;
  });
  collective_try(world, [&] {
    if (!world.root()) return;
    if (!options.json)
      std::cout << "\n" << table(trials, rungs, data.sample.axes) << "\n" << summary(trials, rungs, data.sample.axes);
    if (std::isnan(trials.front().losses.back()))
      throw DataError("every trial diverged at full resolution; give lower --rates");
    write_file(best, to_toml(tuned(config, trials.front(), ranks)), options.replace);
    if (options.json)
      std::cout << tune_json(trials, rungs, data.sample.axes, best);
    else
      std::cout << "best: " << best << "\n";
  });
}

}  // namespace

void add_tune(Subcommands& commands) {
  CLI::App* tune = commands.app.add_subcommand(
      "tune",
      "find the baseline's learning rate, batch and rule: many trials at coarse resolutions, few at the full one");
  auto options = std::make_shared<TuneOptions>();
  add_config(*tune, options->config, options->overrides);
  tune->add_option("--rates", options->rates,
                   "learning rates to try; a quarter, half, once and twice the configuration's")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  tune->add_option("--batches", options->batches,
                   "batches to try, over all of run.ranks; half, once and twice the configuration's")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  tune->add_option("--rules", options->rules, "learning-rate rules to try")
      ->delimiter(',')
      ->check(CLI::IsMember({"constant", "cosine", "linear"}))
      ->capture_default_str();
  tune->add_option("--folder", options->folder,
                   "keeps finished trials, so that the same command goes on; run.folder with -tune behind it");
  tune->add_option("--output,-o", options->output, "the winner's configuration; best.toml in the folder");
  add_overwrite(*tune, options->replace, "replace a winner's configuration that is there");
  add_json(*tune, options->json);
  add_example(*tune, "mrmf tune mine.toml --rates 1e-3,3e-3 --rules cosine -o tuned.toml");
  commands.run(*tune, [=, &world = commands.world] { run_tuning(*options, world); });
}

}  // namespace mrmf
