// `mrmf train`: from a configuration to a finished run folder, or on with a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/method/train_run.hpp"
#include "src/run/run_log.hpp"
#include "src/tournament/train_tournament.hpp"

namespace mrmf {
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

}  // namespace mrmf
