// `mrmf tune`: a tuned baseline for a fraction of its cost.
#include "src/method/tune.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "io/dataset.hpp"
#include "io/output_file.hpp"
#include "kernels/check.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/tune_text.hpp"
#include "src/data/data.hpp"
#include "src/data/normalise.hpp"
#include "src/run/run_cost.hpp"

namespace mrmf {
namespace {

struct TuneOptions {
  std::string config, folder, output;
  std::vector<std::string> overrides;
  std::vector<double> rates;
  std::vector<int> batches;
  std::vector<std::string> rules{"cosine", "linear"};
  Replace replace = Replace::nothing;
  bool json = false, dry_run = false;
};

// Around what the configuration has. Batches are of all ranks that the run is for.
void fill_in(TuneOptions& options, const Config& config, Index ranks, Index samples) {
  const Index batch = config.training.batch;
  const double rate = config.training.optimizer.learning_rate;
  if (options.rates.empty()) options.rates = {rate / 4, rate / 2, rate, 2 * rate};
  if (options.batches.empty()) {
    if (batch * ranks > samples)
      throw ConfigError(fmt::format("training.batch = {} on {} rank{} is larger than the {} training samples", batch,
                                    ranks, ranks == 1 ? "" : "s", samples));
    for (const Index some : {batch / 2, batch, 2 * batch})
      if (some > 0 && some * ranks <= samples) options.batches.push_back(static_cast<int>(some * ranks));
  }
  for (const int all : options.batches) {
    if (all % ranks != 0)
      throw ConfigError(fmt::format("--batches {}: run.ranks = {} ranks cannot share it evenly; give a multiple of {}",
                                    all, ranks, ranks));
    if (all > samples)
      throw ConfigError(fmt::format("--batches {}: larger than the {} training samples", all, samples));
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

// "4 rates x 3 batches x 2 rules"
std::string made_of(const TuneOptions& options) {
  const auto some = [](std::size_t count, const char* one, const char* more) {
    return fmt::format("{} {}", count, count == 1 ? one : more);
  };
  return some(options.rates.size(), "rate", "rates") + " x " + some(options.batches.size(), "batch", "batches") +
         " x " + some(options.rules.size(), "rule", "rules");
}

std::vector<Trial> train_trials(const TuneOptions& options, const TuneSettings& settings,
                                const std::vector<Rung>& rungs, const std::string& best, Comm& world) {
  collective_try(world, [&] {
    if (!world.root()) return;
    make_folders(settings.folder);
    require_output(best, options.replace, {options.config});
  });
  return tune(settings, rungs, world,
              [&](const std::string& line) { (options.json ? std::cerr : std::cout) << line << std::endl; });
}

void print_price(const TuneOptions& options, const Config& config, const std::vector<Rung>& rungs, int axes) {
  if (options.dry_run && options.json) {
    std::cout << price_json(rungs, axes);
    return;
  }
  std::string text = price_text(rungs, axes, made_of(options));
  if (takes_statistics(config)) text += "the recalibration of batch norms comes on top (training.precise_batch_norm)\n";
  (options.json ? std::cerr : std::cout) << text << std::flush;
}

void run_tuning(TuneOptions options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const DatasetShape data = inspect_dataset(config.data.train, world);
  const DatasetShape validation = inspect_dataset(config.data.validation, {config.data.train, data}, world);
  require_distinct_rows(config.data, data, validation, world);
  const int axes = data.sample.axes, ranks = config.run.ranks > 0 ? config.run.ranks : 1;
  fill_in(options, config, ranks, data.samples);
  Config resolved = config;
  resolve_axes(resolved.model.layers, axes);
  const std::vector<Trial> all = grid(options);
  const std::vector<Rung> rungs = make_rungs(resolved, data.sample, static_cast<int>(all.size()));
  if (world.root()) print_price(options, config, rungs, axes);
  if (options.dry_run) return;
  resolve_normalisation(config, data, world);
  resolved.data = config.data;
  const TuneSettings settings{resolved, all, options.folder.empty() ? config.run.folder + "-tune" : options.folder};
  const std::string best = options.output.empty() ? settings.folder + "/best.toml" : options.output;
  const std::vector<Trial> trials = train_trials(options, settings, rungs, best, world);
  collective_try(world, [&] {
    if (!world.root()) return;
    if (!options.json) std::cout << "\n" << result_text(trials, rungs, axes);
    if (std::isnan(trials.front().losses.back()))
      throw DataError("every trial diverged at full resolution; give lower --rates");
    write_file(best, to_toml(tuned(config, trials.front(), ranks)), options.replace);
    if (options.json)
      std::cout << result_json(trials, rungs, axes, best);
    else
      std::cout << fmt::format("best: {} (its batch is for {} rank{})\n", best, ranks, ranks == 1 ? "" : "s");
  });
}

}  // namespace

void add_tune(Subcommands& commands) {
  CLI::App* tune = commands.app.add_subcommand(
      "tune",
      "find the baseline's learning rate, batch and rule by many short trainings at coarse resolutions and few at full "
      "resolution; 24 trials by default (4 rates x 3 batches x 2 rules), side by side on the ranks of mpirun");
  auto options = std::make_shared<TuneOptions>();
  add_config(*tune, options->config, options->overrides);
  tune->add_option("--rates", options->rates,
                   "learning rates to try; by default a quarter, half, once and twice the configuration's")
      ->delimiter(',')
      ->check(above_zero());
  tune->add_option("--batches", options->batches,
                   "batches to try, over all of run.ranks; by default half, once and twice the configuration's")
      ->delimiter(',')
      ->check(above_zero());
  tune->add_option("--rules", options->rules, "learning-rate rules to try")
      ->delimiter(',')
      ->check(CLI::IsMember({"constant", "cosine", "linear"}))
      ->capture_default_str();
  tune->add_option(
      "--folder", options->folder,
      "folder that keeps finished trials, so that the same command continues; run.folder with -tune behind it "
      "unless given");
  tune->add_option("--output,-o", options->output,
                   "file for the best configuration; best.toml in the folder unless given");
  add_overwrite(*tune, options->replace, "replace a best configuration that is there");
  tune->add_flag("--dry-run", options->dry_run, "print the trials and what they cost; train and write nothing");
  add_json(*tune, options->json);
  add_example(*tune,
              "mrmf tune mine.toml --dry-run\n"
              "mrmf tune mine.toml --rates 1e-3,3e-3 --rules cosine -o tuned.toml\n"
              "mpirun -n 2 mrmf tune mine.toml --batches 16,32 --folder runs/mine-trials");
  commands.run(*tune, [=, &world = commands.world] { run_tuning(*options, world); });
}

}  // namespace mrmf
