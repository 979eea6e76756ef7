// The subcommands of mrmf: what each one does, its options as values, and the parsing that fills them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/output_file.hpp"
#include "kernels/backend.hpp"
#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

/// Parses and runs; returns the exit code. Throws what the command throws.
int run_command_line(int argc, char** argv, Comm& world);

/// Adds `mrmf simulate` and `mrmf bench`; `command` becomes what they ask for when they are parsed.
void add_simulate(CLI::App& app, std::function<void()>& command, Comm& world);
void add_bench(CLI::App& app, std::function<void()>& command, Comm& world);

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

/// Threads for this rank: as wanted, or (0) the cores it may use over the ranks of the node that may use the same.
/// Collective over `world`; all ranks want the same.
int choose_threads(int wanted, Comm& world);

/// The CPU backend that the configuration names, with its threads. ConfigError for a device this build lacks.
std::unique_ptr<Backend> make_backend(const RunConfig& run, Comm& world);

struct NeuronSimulation;
void simulate_neuron_command(NeuronSimulation settings, Comm& world);
struct CosmologySimulation;
void simulate_cosmology_command(CosmologySimulation settings, Comm& world);

struct CoarsenOptions {
  std::vector<std::string> files;
  std::string factor;                ///< "2,2,2": per axis
  std::string output;                ///< folder
  std::vector<std::string> samples;  ///< data sets to average; empty: by their number of axes
  std::string type = "float32";
  std::string missing = "refuse";  ///< refuse | fill: as data.missing
  int threads = 0;
  Replace replace = Replace::nothing;
};
/// Writes coarse copies of files, under their own names.
void coarsen_command(const CoarsenOptions& options, Comm& world);

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool overwrite = false;
};
/// Stopped (src/run/signals.hpp): a signal came, and the run is saved.
void train_command(const TrainOptions& options, Comm& world);

struct ModelOptions {
  std::string run;                 ///< a finished run folder
  std::vector<std::string> files;  ///< other data than the run's own
  std::string split = "validation";
  std::string samples, labels;  ///< data set names, when not the run's; predict needs no labels
  std::string missing;          ///< refuse | fill, when not as the run's data.missing
  std::string output;           ///< predict: HDF5 file to write
  Replace replace = Replace::nothing;
  bool checkpoint = false;  ///< the newest checkpoint's model, of a run that is not done
};
/// Loss, mean absolute error and R^2 per label of a finished run's model.
void evaluate_command(const ModelOptions& options, Comm& world);
/// Writes the model's outputs for every sample as the data set "prediction". Needs no labels and reads none.
void predict_command(const ModelOptions& options, Comm& world);

/// "1600x3" as the shape of a sample: positions per axis, then channels. ConfigError when it is none.
Shape parse_sample(const std::string& text);

struct InspectOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string sample;  ///< "1600x3"; empty: from the data, else the preset's
};
void inspect_command(const InspectOptions& options, Comm& world);

/// What mrmf finds on this machine: libraries, processor, memory, ranks.
void doctor_command(Comm& world);

}  // namespace mrmf
