// The subcommands of mrmf, and what several of them share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "io/output_file.hpp"
#include "mpi/comm.hpp"

namespace mrmf {

/// Parses and runs; returns the exit code. Throws what the command throws.
int run_command_line(int argc, char** argv, Comm& world);

/// What the subcommands are added to.
struct Subcommands {
  CLI::App& app;
  Comm& world;
  std::function<void()> chosen{};  ///< the work of the one that the command line names: done after parsing

  void run(CLI::App& sub, std::function<void()> work) {
    sub.callback([this, work = std::move(work)] { chosen = work; });
  }
};

// Each in its own src/cli/<name>.cpp (predict: evaluate.cpp), with its options and its work.
void add_simulate(Subcommands& commands);
void add_coarsen(Subcommands& commands);
void add_inspect(Subcommands& commands);
void add_plan(Subcommands& commands);
void add_train(Subcommands& commands);
void add_compare(Subcommands& commands);
void add_plot(Subcommands& commands);
void add_evaluate(Subcommands& commands);
void add_predict(Subcommands& commands);
void add_bench(Subcommands& commands);
void add_presets(Subcommands& commands);
void add_doctor(Subcommands& commands);

/// All of them, in the order of --help.
using AddCommand = void (*)(Subcommands&);
inline constexpr AddCommand kSubcommands[] = {add_simulate, add_coarsen, add_inspect, add_plan,
                                              add_train,    add_compare, add_plot,    add_evaluate,
                                              add_predict,  add_bench,   add_presets, add_doctor};

/// The configuration file and its overrides, as every subcommand that takes them spells them. `what` describes the file
/// in --help.
inline void add_config(CLI::App& app, std::string& config, std::vector<std::string>& overrides,
                       const std::string& what = "configuration file (TOML)") {
  app.add_option("config", config, what)->required();
  app.add_option("--set", overrides, "override a key: --set training.batch=256")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
}

/// The flag of every command that has an output.
inline void add_overwrite(CLI::App& app, Replace& replace,
                          const std::string& what = "replace an output that is there") {
  app.add_flag_callback(
      "--overwrite", [&replace] { replace = Replace::file; }, what);
}



}  // namespace mrmf
