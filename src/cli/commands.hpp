// The subcommands of mrmf, and what several of them share: options, what the headers of data files tell before
// anything runs, and the proposal of `mrmf plan --ranks`. Private to src/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/files/output_file.hpp"
#include "io/rows/dataset.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/inference/trained_models.hpp"
#include "src/method/auto_schedule_and_tune.hpp"
#include "src/rank_planner/rank_planner.hpp"

namespace mrmf {

/// Parses and runs; returns the exit code. Throws the command's errors.
int run_command_line(int argc, char** argv, Comm& world);

/// Collects the subcommands.
struct Subcommands {
  CLI::App& app;
  Comm& world;
  std::function<void()> chosen{};  ///< the work of the chosen subcommand: done after parsing

  void run(CLI::App& sub, std::function<void()> work) {
    sub.callback([this, work = std::move(work)] { chosen = work; });
  }
};

// Each is in src/cli, with its options and its work, in a file that has the command's name in its own; several that are
// alike share one.
void add_simulate(Subcommands& commands);
void add_coarsen(Subcommands& commands);
void add_init(Subcommands& commands);
void add_data(Subcommands& commands);
void add_inspect(Subcommands& commands);
void add_plan(Subcommands& commands);
void add_tune(Subcommands& commands);
void add_ensemble(Subcommands& commands);
void add_train(Subcommands& commands);
void add_compare(Subcommands& commands);
void add_plot(Subcommands& commands);
void add_report(Subcommands& commands);
void add_evaluate(Subcommands& commands);
void add_predict(Subcommands& commands);
void add_export(Subcommands& commands);
void add_import(Subcommands& commands);
void add_bench(Subcommands& commands);
void add_bench_steps(CLI::App& bench, Subcommands& commands);  // part of add_bench()
void add_presets(Subcommands& commands);
void add_doctor(Subcommands& commands);
void add_completion(Subcommands& commands);
void add_manual(Subcommands& commands);

/// All subcommands in the order of --help.
using AddCommand = void (*)(Subcommands&);
inline constexpr AddCommand kSubcommands[] = {
    add_simulate, add_coarsen, add_init,    add_data,    add_inspect, add_plan,       add_tune,
    add_ensemble, add_train,   add_compare, add_plot,    add_report,  add_evaluate,   add_predict,
    add_export,   add_import,  add_bench,   add_presets, add_doctor,  add_completion, add_manual};

/// Ends the command's --help with lines that a user can copy, one command each. Every command has some, and
/// tests/cli/test_examples.py runs them all, in a folder whose files it describes. A command with subcommands gets its
/// example after them: they would inherit it.
inline void add_example(CLI::App& app, const std::string& lines) {
  std::string text = "Example:\n  ";
  for (const char c : lines) text += c == '\n' ? "\n  " : std::string(1, c);
  app.footer(text);
}

/// Adds the flag of a command that prints a table: the same figures as one JSON object.
inline void add_json(CLI::App& app, bool& json, const std::string& what = "print the same figures as one JSON object") {
  app.add_flag("--json", json, what);
}

/// Adds the configuration file and its overrides, spelt alike in every subcommand. `what` describes the file in --help.
inline void add_config(CLI::App& app, std::string& config, std::vector<std::string>& overrides,
                       const std::string& what = "configuration file (TOML)") {
  app.add_option("config", config, what)->required();
  app.add_option("--set", overrides, "override a key: --set training.batch=256")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
}

/// An option's words and their meanings, in the order of --help.
template <class E>
using Choices = std::vector<std::pair<std::string, E>>;

/// The words of the configuration key with the same values.
template <class E>
Choices<E> choices() {
  Choices<E> all;
  for (const std::string& word : words_of<E>()) all.emplace_back(word, static_cast<E>(all.size()));
  return all;
}

/// Adds an option with one of a few words as its value. CLI11's own transformer would print numbers for them in --help.
template <class E, class Target>
void add_choice(CLI::App& app, const std::string& name, Target& target, const Choices<E>& all,
                const std::string& meaning) {
  std::vector<std::string> words;
  for (const auto& [word, value] : all) words.push_back(word);
  const auto read = [=, &target](const std::string& given) {
    for (const auto& [word, value] : all)
      if (word == given) target = value;
  };
  CLI::Option* option = app.add_option_function<std::string>(name, read, meaning)->check(CLI::IsMember(words));
  for (const auto& [word, value] : all)
    if (target == value) option->default_str(word);
}

/// A check of an option's number, by words of its own: the library's name the largest number there is, in 309 digits.
inline CLI::Validator number_check(const std::string& type, const std::string& what, bool (*holds)(double)) {
  const auto check = [what, holds](const std::string& text) -> std::string {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && holds(value) ? "" : "'" + text + "' is not a number " + what;
  };
  return CLI::Validator(check, type);
}
inline CLI::Validator above_zero() {
  return number_check("POSITIVE", "above 0", [](double value) { return std::isfinite(value) && value > 0; });
}
inline CLI::Validator not_negative() {
  return number_check("NONNEGATIVE", "of at least 0", [](double value) { return std::isfinite(value) && value >= 0; });
}

/// Adds the flag that every command with an output has.
inline void add_overwrite(CLI::App& app, Replace& replace,
                          const std::string& what = "replace an output that is there") {
  app.add_flag_callback(
      "--overwrite", [&replace] { replace = Replace::file; }, what);
}

// Command-line options that say which models are run on which data.

/// Adds --epoch and --checkpoint.
void add_wanted(CLI::App& app, WantedModel& wanted);

/// Adds all options that evaluating and predicting share; the models, labels and output are the command's own.
void add_model_options(CLI::App& sub, ModelOptions& options);

// The shape of a sample for commands that tell what a run would be before anything runs.

struct DataSample {
  Shape shape;
  std::string origin;                   ///< where it is from, for people
  std::optional<DatasetShape> train{};  ///< the training data, where it is from them
};

/// `given` ("1600x3") where it is not empty, else the shape of the training data's samples, else the preset's usual
/// one. DataError where none of them is there. Collective.
DataSample data_sample(const Config& config, const std::string& given, Comm& world);

/// The data set as its headers tell: rows are counted that data.not_finite = "skip" leaves out in a run, because to
/// find them would take reading everything. Collective; DataError as inspect_dataset's.
DatasetShape headers_of(DatasetSpec spec, Comm& world);

/// The numbers of samples by the headers, and of ranks: run.ranks, else those of `world`. None where the training data
/// are not there; without validation data an epoch is training alone. Collective; DataError as headers_of()'s.
std::optional<RunSize> run_size(const Config& config, const DataSample& sample, Comm& world);

/// What "auto" comes to: for the training data, or for the shape alone where they are not there or it was given.
/// Collective; errors as choose_schedule()'s.
AutoSchedule schedule_for(const Config& config, const DataSample& sample, const std::optional<RunSize>& size,
                          Comm& world);

/// The configuration, with what "auto" chooses written out. `given`: as in data_sample(). Collective; errors as theirs.
Config with_schedule(const Config& config, const std::string& given, Comm& world);

/// What attributes of netCDF say of the numbers of a data set's samples and labels and is applied to them, a line each:
/// "'t2m' is packed int16: ...", or, where files differ, "'t2m' in 3 of 5 files: packed int16: ...". Opens all files.
/// Collective.
std::vector<std::string> packing_lines(const DatasetSpec& spec, Comm& world);

/// The option that is `given`.
void add_sample(CLI::App& app, std::string& given);

/// The first missing file; empty when all exist.
std::string absent(const std::vector<std::string>& files);

// `mrmf plan --ranks`: which grid of ranks suits every phase of a plan, or which split concurrent teams, by prediction.

struct RanksOptions {
  int ranks = 0;  ///< 0: nothing is predicted
  int per_node = 0;
  std::string tables, machine;
  double memory = 0;  ///< GB of a rank
  Index batch = 0;
  double samples = 0, validated = 0;  ///< 0: the data's
  bool layers = false;                ///< a table of them is printed
};

void add_ranks(CLI::App& plan, RanksOptions& options);

/// The same with as many samples as the data have, where no option says how many. 0: nobody knows. Collective;
/// DataError as headers_of()'s.
RanksOptions with_counts(RanksOptions options, const Config& config, const DataSample& sample, Comm& world);

/// What the search found, and by which model.
struct RanksProposal {
  std::string model;
  std::vector<std::string> assumptions;
  std::vector<PhaseChoices> phases;
  std::vector<OneGrid> all;  ///< grids for the whole run
  std::optional<GridPerResolution> by_resolution;
  std::vector<TeamChoice> splits;  ///< splits of concurrent teams
  int ranks = 1, axes = 1;
  bool layers = false;
  ProposedRun run;               ///< the best of it
  std::optional<Config> config;  ///< with that; none: no grids fit

  /// The best single grid, or one for each resolution where these are predicted at least 1 % faster. Empty: none fit.
  std::vector<Grid> grids() const;
};

/// `options`: with_counts(). Collective. ConfigError where nothing fits, DataError without tables.
RanksProposal plan_ranks(const Config& config, const DataSample& sample, const RanksOptions& options, Comm& world);

std::string to_text(const RanksProposal& plan);
nlohmann::ordered_json to_json(const RanksProposal& plan);
/// The configuration with the best grids, batches and split. ConfigError where nothing fits.
Config with_grid(const RanksProposal& plan);

}  // namespace mrmf
