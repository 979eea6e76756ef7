// `mrmf train` and `mrmf tune`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/rows/dataset.hpp"
#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/data/data.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/plan.hpp"
#include "src/run/run_cost.hpp"
#include "src/run/run_log.hpp"
#include "src/tournament/train_tournament.hpp"

namespace mrmf {

// `mrmf train`: from a configuration to a finished run folder, or on with a run.

namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool overwrite = false;
  bool changed_data = false;
  bool folds = false;
  std::string run;  ///< instead of `config`: the folder of a resumed run
};

/// What is to be trained.
struct Asked {
  Config config;
  bool continued = false;  ///< with a run by its folder, whose last phase may have more epochs than it was saved with
  bool more = false;       ///< it has
};

// Whether one of the settings is of this key, with whatever value.
bool sets(const std::vector<std::string>& overrides, const std::string& key) {
  return std::ranges::any_of(overrides, [&](const std::string& setting) {
    std::string name = setting.substr(0, setting.find('='));
    std::erase(name, ' ');
    return name == key;
  });
}

// The configuration of a resumed run, with other epochs for its last phase if that is asked for.
Asked read_continued(const TrainOptions& options) {
  const std::string file = options.run + "/config.toml";
  std::error_code none;
  if (!std::filesystem::exists(file, none))
    throw ConfigError("--continue " + options.run + ": is no run's folder: there is no " + file +
                      "; name the folder that mrmf train made");
  const Config kept = read_config(file, {}, Writer::run);
  Config config = read_config(file, options.overrides, Writer::run);
  if (config.run.folder != kept.run.folder)
    throw ConfigError("--continue " + options.run + " continues in that folder; leave --set run.folder out");
  const bool by_training = sets(options.overrides, "training.epochs") || config.training.epochs != kept.training.epochs;
  const int had = last_epochs(kept), wanted = by_training ? config.training.epochs : last_epochs(config);
  if (wanted < had)
    throw ConfigError(fmt::format("--continue {}: the last phase has {} epochs, and {} are fewer; give more",
                                  options.run, had, wanted));
  if (wanted == had && std::filesystem::exists(options.run + "/result.json", none))
    throw ConfigError(
        fmt::format("--continue {}: the run is done; for more than its {} epochs give --set "
                    "training.epochs=...",
                    options.run, had));
  // Written as the run has it, unless there are more: the command that began the run then continues it, too.
  config.training.epochs = kept.training.epochs;
  config.method.finetune.epochs = kept.method.finetune.epochs;
  if (wanted != had) set_last_epochs(config, wanted);
  config.run.folder = options.run;
  return {std::move(config), true, wanted > had};
}

Asked read_asked(const TrainOptions& options) {
  if (options.run.empty() == options.config.empty())
    throw ConfigError("train: name a configuration file, or a run's folder with --continue, and not both");
  if (options.run.empty()) return {read_config(options.config, options.overrides)};
  if (options.overwrite) throw ConfigError("train: --continue continues a run, and --overwrite begins anew; keep one");
  return read_continued(options);
}

// Every fold, and the table of all of them.
void run_folds(const TrainOptions& options, Comm& world) {
  if (!options.run.empty())
    throw ConfigError("train: --folds begins and continues every fold of a configuration; leave --continue out");
  const Config config = read_config(options.config, options.overrides);
  const TrainRun train{.overwrite = options.overwrite,
                       .out = &std::cout,
                       .terminal = stdout_is_terminal(),
                       .config_file = options.config,
                       .changed_data = options.changed_data};
  const std::vector<std::string> folders =
      train_folds(config, train, world, [](const std::string& line) { std::cout << line << std::endl; });
  if (world.root()) std::cout << "\n" << compare_table(folders, {.width = output_width()});
}

void run_training(const TrainOptions& options, Comm& world) {
  if (options.folds) return run_folds(options, world);
  const Asked asked = read_asked(options);
  const TrainRun train{options.overwrite, &std::cout, stdout_is_terminal(), options.config,
                       asked.continued,   asked.more, options.changed_data};
  if (asked.config.tournament.trainers > 1)
    train_tournament(asked.config, train, world);
  else
    train_run(asked.config, train, world);
}

}  // namespace

void add_train(Subcommands& commands) {
  CLI::App* train = commands.app.add_subcommand(
      "train",
      "train as the configuration says, into its run folder; the same command continues a run that was stopped");
  auto options = std::make_shared<TrainOptions>();
  add_config(*train, options->config, options->overrides, "configuration file (TOML), unless --continue is given");
  train->get_option("config")->required(false);
  train->add_option(
      "--continue", options->run,
      "folder of a run to continue, in place of a configuration; with --set training.epochs=N a run that is "
      "done trains its last phase until that has N epochs");
  train->add_flag("--folds", options->folds,
                  "train a run for every fold of data.split.by = \"folds\", into run.folder/fold-0, fold-1, ..., and "
                  "print a table of all; as many side by side as ranks are started; what is done stays");
  train->add_flag("--overwrite", options->overwrite, "begin anew in a folder that holds a run, finished or not");
  train->add_flag("--allow-changed-data", options->changed_data,
                  "continue a run although its data files now hold other numbers than when it was saved");
  add_example(*train,
              "mrmf train mine.toml --set run.folder=runs/new --set training.early_stopping.patience=5\n"
              "mrmf train mine.toml --set run.folder=runs/warm --set model.start=runs/new\n"
              "mrmf train --continue runs/new --set training.epochs=3");
  commands.run(*train, [=, &world = commands.world] { run_training(*options, world); });
}

// What `mrmf tune` prints: the price before anything is trained, the trials and how well the rungs agree after it.

/// The rungs and their costs in epochs at full resolution, beside that of all trials at full length. `axes`: of the
/// data. `made` says how the trials came to be so many.
std::string price_text(const std::vector<Rung>& rungs, int axes, const std::string& made);
/// The same as one JSON object.
std::string price_json(const std::vector<Rung>& rungs, int axes);

/// A line per trial, from best to worst, with a column per rung; then how well the rungs agree.
std::string result_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes);
/// The same as one JSON object, with the price. `best` is the winner's file.
std::string result_json(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes,
                        const std::string& best);

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

// Threads and epochs that were set for the trials alone are not the best configuration's: it has the file's.
Config handed_over(Config best, int batch, const TuneOptions& options) {
  std::vector<std::string> others = options.overrides;  // the file alone may lack what --set gives
  std::erase_if(others, [](const std::string& set) {
    return set.starts_with("run.threads") || set.starts_with("training.epochs");
  });
  const Config file = read_config(options.config, others);
  best.run.threads = file.run.threads;
  best.training.epochs = file.training.epochs;
  best.training.optimizer.tuned_batch = batch;
  return best;
}

// A winner at the end of what was tried may have a better one beyond it.
std::string edge_text(const Trial& best, const TuneOptions& options) {
  std::string text;
  const auto look = [&](const std::string& what, const std::string& option, double value, double least, double most) {
    if (least == most || (value != least && value != most)) return;
    const bool highest = value == most;
    text += fmt::format("the best {} is the {} that was tried: try {}, such as {} {:g},{:g}\n", what,
                        highest ? "highest" : "lowest", highest ? "higher" : "lower", option, value,
                        highest ? 2 * value : value / 2);
  };
  const auto [slow, fast] = std::ranges::minmax(options.rates);
  look("rate", "--rates", best.learning_rate, slow, fast);
  const auto [small, large] = std::ranges::minmax(options.batches);
  if (best.batch != small || small > 1) look("batch", "--batches", best.batch, small, large);
  return text;
}

std::vector<Extent> resolutions_of(const std::vector<Rung>& rungs) {
  std::vector<Extent> resolutions;
  for (const Rung& rung : rungs) resolutions.push_back(rung.resolution);
  return resolutions;
}

void run_tuning(TuneOptions options, Comm& world) {
  Config config = read_config(options.config, options.overrides);
  const DatasetShape data = inspect_dataset(config.data.train, world);
  const DatasetShape validation = inspect_dataset(config.data.validation, {config.data.train, data}, world);
  const std::optional<DatasetShape> test = test_headers(config.data, data, world);
  require_distinct_rows(config.data, data, validation, test ? &*test : nullptr, world);
  const int axes = data.sample.axes, ranks = config.run.ranks > 0 ? config.run.ranks : 1;
  fill_in(options, config, ranks, data.samples);
  Config resolved = config;
  resolve_axes(resolved.model.layers, axes);
  const std::vector<Trial> all = grid(options);
  const std::vector<Rung> rungs = make_rungs(resolved, data.sample, static_cast<int>(all.size()));
  if (world.root()) print_price(options, config, rungs, axes);
  if (options.dry_run) return;
  // Trials are baselines, whatever the method. The best configuration measures anew: its folds, or its seed, may be
  // others.
  resolved.method = {};
  resolved.method.axes = axes;
  resolve_from_data(resolved, data, resolutions_of(rungs), world);
  const TuneSettings settings{resolved, all, options.folder.empty() ? config.run.folder + "-tune" : options.folder};
  const std::string best = options.output.empty() ? settings.folder + "/best.toml" : options.output;
  const std::vector<Trial> trials = train_trials(options, settings, rungs, best, world);
  collective_try(world, [&] {
    if (!world.root()) return;
    if (!options.json) std::cout << "\n" << result_text(trials, rungs, axes);
    if (std::isnan(trials.front().losses.back()))
      throw DataError("every trial diverged at full resolution; give lower --rates");
    write_file(best, to_toml(handed_over(tuned(config, trials.front(), ranks), trials.front().batch, options)),
               options.replace);
    if (options.json)
      std::cout << result_json(trials, rungs, axes, best);
    else
      std::cout << edge_text(trials.front(), options)
                << fmt::format("best: {} (its batch is for {} rank{})\n", best, ranks, ranks == 1 ? "" : "s");
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

namespace {

using Json = nlohmann::ordered_json;

double all_cost(const std::vector<Rung>& rungs) {
  double cost = 0;
  for (const Rung& rung : rungs) cost += rung.trials * rung.cost;
  return cost;
}

// What the same trials would cost without rungs.
double full_length_cost(const std::vector<Rung>& rungs) { return rungs.front().trials * rungs.back().cost; }

std::string heading(const Rung& rung, int axes) {
  return fmt::format("{} x {}", resolution_text(rung.resolution, axes), rung.epochs);
}

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

std::string agreement_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, std::size_t rung,
                           std::size_t other, int axes) {
  const int both = rungs[other].trials;  // the finer rung's trials have come through the coarser one
  const double agreement = rank_agreement(trials, rung, other);
  std::string text = fmt::format("Spearman {:.2f} over {} trials", agreement, both);
  if (both < kFewestForAgreement)
    text = fmt::format("{} trials are too few to say", both);
  else if (std::isnan(agreement))
    text = fmt::format("{} trials with equal losses have no order", both);
  return fmt::format("order of {} against {}: {}\n", heading(rungs[rung], axes), heading(rungs[other], axes), text);
}

// The agreement of every rung with the next one, which more trials have reached, and with the last one.
std::string agreements(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  const std::size_t last = rungs.size() - 1;
  std::string text;
  for (std::size_t r = 0; r < last; ++r) {
    if (r + 1 < last) text += agreement_text(trials, rungs, r, r + 1, axes);
    text += agreement_text(trials, rungs, r, last, axes);
  }
  return text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json price(const std::vector<Rung>& rungs, int axes) {
  Json json{{"rungs", Json::array()}};
  for (const Rung& rung : rungs)
    json["rungs"].push_back({{"resolution", factors(rung.resolution, axes)},
                             {"epochs", rung.epochs},
                             {"trials", rung.trials},
                             {"cost_epochs", rung.cost}});
  json["cost_epochs"] = all_cost(rungs);
  json["full_length_cost_epochs"] = full_length_cost(rungs);
  return json;
}

}  // namespace

std::string price_text(const std::vector<Rung>& rungs, int axes, const std::string& made) {
  const auto some = [](int trials) { return trials == 1 ? "trial" : "trials"; };
  std::string text = fmt::format("{} {} ({}); costs are in epochs at full resolution, by arithmetic:\n",
                                 rungs.front().trials, some(rungs.front().trials), made);
  for (std::size_t r = 0; r < rungs.size(); ++r)
    text += fmt::format("  rung {} of {}: {:>3} {} of {} epoch{} at resolution {}, {:.1f} each, {:.1f} in all\n", r + 1,
                        rungs.size(), rungs[r].trials, some(rungs[r].trials), rungs[r].epochs,
                        rungs[r].epochs == 1 ? "" : "s", resolution_text(rungs[r].resolution, axes), rungs[r].cost,
                        rungs[r].trials * rungs[r].cost);
  if (rungs.size() == 1)
    return text + fmt::format("cost: {:.1f}; so few trials are all trained in full\n", all_cost(rungs));
  return text + fmt::format("cost: {:.1f}; all trials at full length would cost {:.1f}\n", all_cost(rungs),
                            full_length_cost(rungs));
}

std::string price_json(const std::vector<Rung>& rungs, int axes) { return price(rungs, axes).dump(2) + "\n"; }

std::string result_text(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes) {
  return table(trials, rungs, axes) + "\n" + agreements(trials, rungs, axes);
}

std::string result_json(const std::vector<Trial>& trials, const std::vector<Rung>& rungs, int axes,
                        const std::string& best) {
  Json json = price(rungs, axes);
  for (std::size_t r = 0; r < rungs.size(); ++r) {
    Json& rung = json["rungs"][r];
    rung["agreement"] = number(rank_agreement(trials, r, rungs.size() - 1));
    rung["agreement_with_next"] = number(rank_agreement(trials, r, std::min(r + 1, rungs.size() - 1)));
  }
  json["trials"] = Json::array();
  for (const Trial& trial : trials) {
    Json losses = Json::array();  // as far as it got; null where it diverged
    for (const double loss : trial.losses) losses.push_back(number(loss));
    json["trials"].push_back({{"learning_rate", trial.learning_rate},
                              {"batch", trial.batch},
                              {"rule", to_string(trial.rule)},
                              {"losses", losses}});
  }
  json["best"] = best;
  return json.dump(2) + "\n";
}

}  // namespace mrmf
