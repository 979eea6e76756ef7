// The subcommands of mrmf and their common parts, options above all. Private to src/cli.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "io/files/output_file.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/inference/trained_models.hpp"

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

// Each is in its own src/cli/<name>.cpp, with its options and its work; those of a pair in one file.
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

}  // namespace mrmf
