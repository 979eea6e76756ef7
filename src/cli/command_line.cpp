// The command line: every subcommand with its options, declared once.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>

#include "generated/version.hpp"
#include "io/nearest.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/config/presets.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {
namespace {

/// The parsed command: set by the subcommand's callback, run after parsing.
using Command = std::function<void()>;

/// Options live as long as the parser.
template <typename T>
std::shared_ptr<T> held() {
  return std::make_shared<T>();
}

void add_coarsen(CLI::App& app, Command& command, Comm& world) {
  CLI::App* coarsen = app.add_subcommand("coarsen", "write averaged-down copies of data files");
  auto options = held<CoarsenOptions>();
  coarsen->add_option("files", options->files, "HDF5 files")->required();
  coarsen->add_option("--factor", options->factor, "how many neighbours become one, per axis: 2,2,2")->required();
  coarsen->add_option("--output,-o", options->output, "folder for the copies, which keep their names")->required();
  coarsen
      ->add_option("--samples", options->samples,
                   "data sets to average; unless given, all whose samples have as many axes as --factor has numbers; "
                   "may be given "
                   "more than once")
      ->take_all()
      ->expected(1);
  coarsen->add_option("--type", options->type, "of the copy's samples; uint16: means rounded to integers")
      ->check(CLI::IsMember({"float32", "uint16"}))
      ->capture_default_str();
  coarsen
      ->add_option("--missing", options->missing, "rows that were never written: refuse them, or take the fill value")
      ->check(CLI::IsMember({"refuse", "fill"}))
      ->capture_default_str();
  coarsen->add_option("--threads", options->threads, "threads per rank; 0: the cores it may use")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_overwrite(*coarsen, options->replace, "replace copies that are there");
  coarsen->callback([=, &command, &world] { command = [=, &world] { coarsen_command(*options, world); }; });
}

void add_inspect(CLI::App& app, Command& command, Comm& world) {
  CLI::App* inspect = app.add_subcommand(
      "inspect", "print the model's layers, parameters, FLOP and memory at every resolution of the plan");
  auto options = held<InspectOptions>();
  add_config(*inspect, options->config, options->overrides);
  inspect->add_option("--sample", options->sample,
                      "shape of a sample, e.g. 1600x3; default: the data's, else the preset's");
  inspect->callback([=, &command, &world] { command = [=, &world] { inspect_command(*options, world); }; });
}

void add_plan(CLI::App& app, Command& command, Comm& world) {
  CLI::App* plan =
      app.add_subcommand("plan", "print the steps of a run: what is trained, fused and finetuned, and until when");
  auto options = held<TrainOptions>();
  auto json = held<bool>();
  add_config(*plan, options->config, options->overrides);
  plan->add_flag("--json", *json, "as JSON, the form the run folder keeps");
  plan->callback([=, &command, &world] {
    command = [=, &world] {
      const Config config = read_config(options->config, options->overrides);
      const Plan made = make_plan(config);
      print_warnings(config_warnings(config), world);
      if (world.root()) std::cout << (*json ? to_json(made) : to_text(made));
    };
  });
}

void add_train(CLI::App& app, Command& command, Comm& world) {
  CLI::App* train = app.add_subcommand("train", "train a model as the configuration says, into its run folder");
  auto options = held<TrainOptions>();
  add_config(*train, options->config, options->overrides);
  train->add_flag("--overwrite", options->overwrite, "begin anew in a folder that holds a run, finished or not");
  train->callback([=, &command, &world] { command = [=, &world] { train_command(*options, world); }; });
}

void add_compare(CLI::App& app, Command& command, Comm& world) {
  CLI::App* compare = app.add_subcommand(
      "compare", "print finished runs as the paper's Tables 5 and 7, grouped by method, mean and spread over seeds");
  auto folders = held<std::vector<std::string>>();
  auto options = held<CompareOptions>();
  auto target = held<double>();
  compare->add_option("runs", *folders, "run folders")->required();
  const CLI::Option* given =
      compare->add_option("--target", *target, "also the cost until the validation loss first reached this");
  auto csv = held<bool>(), json = held<bool>();
  CLI::Option* lines = compare->add_flag("--csv", *csv, "print the runs behind the table, a line of values each");
  compare->add_flag("--json", *json, "print the table's columns, their runs and figures as JSON")->excludes(lines);
  compare->callback([=, &command, &world] {
    command = [=, &world] {
      if (given->count() > 0) options->target = *target;
      options->width = output_width();
      const auto print = *csv ? compare_csv : *json ? compare_json : compare_table;
      if (world.root()) std::cout << print(*folders, *options);
    };
  });
}

void add_plot(CLI::App& app, Command& command, Comm& world) {
  CLI::App* plot =
      app.add_subcommand("plot", "draw validation loss over what training cost (needs Python with matplotlib)");
  auto options = held<PlotOptions>();
  plot->add_option("runs", options->runs, "run folders")->required();
  plot->add_option("--output,-o", options->output.file, "image to write, .png or .svg")->required();
  plot->add_option("--x", options->x, "what the horizontal axis counts")
      ->check(CLI::IsMember({"seconds", "gflop", "epochs"}))
      ->capture_default_str();
  add_overwrite(*plot, options->output.replace);
  plot->add_flag("--mean", options->mean, "one line per method: the mean over its seeds, and their range");
  plot->callback([=, &command, &world] {
    command = [=, &world] {
      if (world.root()) plot_runs(*options);
    };
  });
}

void add_model_commands(CLI::App& app, Command& command, Comm& world) {
  const auto common = [](CLI::App& sub, ModelOptions& options) {
    sub.add_option("run", options.run, "folder of a finished run")->required();
    sub.add_option("--files", options.files, "HDF5 files to use instead of the run's");
    sub.add_option("--split", options.split, "train or validation: whose data set names to use")
        ->check(CLI::IsMember({"train", "validation"}))
        ->capture_default_str();
    sub.add_option("--samples", options.samples, "name of the data set of samples, e.g. test_frames");
    sub.add_option("--missing", options.missing,
                   "rows that were never written: refuse them, or take the fill value; the run's data.missing unless "
                   "given")
        ->check(CLI::IsMember({"refuse", "fill"}));
    sub.add_flag("--checkpoint", options.checkpoint, "use the newest checkpoint of a run that is not done");
  };
  CLI::App* evaluate = app.add_subcommand("evaluate", "loss, mean absolute error and R^2 per label of a trained model");
  auto evaluated = held<ModelOptions>();
  common(*evaluate, *evaluated);
  evaluate->add_option("--labels", evaluated->labels, "name of the data set of labels, e.g. test_unitStar_par");
  evaluate->callback([=, &command, &world] { command = [=, &world] { evaluate_command(*evaluated, world); }; });

  CLI::App* predict = app.add_subcommand(
      "predict", "write a trained model's outputs for every sample to an HDF5 file; needs no labels");
  auto predicted = held<ModelOptions>();
  common(*predict, *predicted);
  predict->add_option("--labels", predicted->labels, "accepted as for evaluate; labels are never read");
  predict->add_option("--output,-o", predicted->output, "HDF5 file to write; data set \"prediction\"")->required();
  add_overwrite(*predict, predicted->replace);
  predict->callback([=, &command, &world] { command = [=, &world] { predict_command(*predicted, world); }; });
}

void add_small_commands(CLI::App& app, Command& command, Comm& world) {
  CLI::App* presets = app.add_subcommand("presets", "list the networks that model.preset can name, or all keys");
  auto keys = held<bool>();
  presets->add_flag("--keys", *keys, "every key of the configuration with its default and meaning");
  presets->callback([=, &command, &world] {
    command = [=, &world] {
      if (!world.root()) return;
      if (*keys)
        std::cout << describe_keys();
      else
        for (const Preset& preset : preset_list())
          std::cout << preset.name << "  " << preset.description << "; samples " << preset.sample << "\n";
    };
  });
  CLI::App* doctor = app.add_subcommand("doctor", "what mrmf finds here: libraries, processor, memory, ranks, threads");
  doctor->callback([&command, &world] { command = [&world] { doctor_command(world); }; });
}

// CLI11 says only that a subcommand is missing.
void require_known_subcommand(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string given = argv[1];
  if (std::ranges::find(names, given) == names.end())
    throw ConfigError("there is no subcommand '" + given + "'" + did_you_mean(given, names) + " (see mrmf --help)");
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "mrmf";
  for (const std::string& word : words) text += " " + word;
  constexpr std::size_t most = 200;
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

// Ranks that go different ways would meet in collective calls that do not belong together.
void require_same_command(int argc, char** argv, Comm& world) {
  if (world.size() == 1) return;
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::string all;
  for (const std::string& word : words) all += word + '\0';
  auto roots = static_cast<std::int64_t>(std::hash<std::string>{}(all));
  const std::int64_t mine = roots;
  world.broadcast(std::span(&roots, 1), 0);
  const auto other = static_cast<int>(world.min(roots == mine ? world.size() : world.rank()));
  if (other == world.size()) return;
  std::string first = joined(words), second = first;
  world.broadcast(first, 0);
  world.broadcast(second, other);
  throw ConfigError("the ranks were started with different commands: rank 0 with \"" + first + "\", rank " +
                    std::to_string(other) + " with \"" + second + "\"; start all of them with the same");
}

}  // namespace

int run_command_line(int argc, char** argv, Comm& world) {
  require_same_command(argc, argv, world);
  CLI::App app{
      "mrmf trains convolutional networks on large scientific arrays by multi-resolution model fusion:\n"
      "coarse models on averaged-down data first, their bottom layers handed to finer ones, stage by stage.\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 data, 4 fault, 75 stopped by a signal and saved."};
  app.set_version_flag("--version", std::string("mrmf ") + kVersion + " (" + kGitHash + ")");
  app.require_subcommand(1);
  Command command;
  add_simulate(app, command, world);
  add_coarsen(app, command, world);
  add_inspect(app, command, world);
  add_plan(app, command, world);
  add_train(app, command, world);
  add_compare(app, command, world);
  add_plot(app, command, world);
  add_model_commands(app, command, world);
  add_bench(app, command, world);
  add_small_commands(app, command, world);
  require_known_subcommand(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw ConfigError(std::string(error.what()) + " (see mrmf --help)");
    return world.root() ? app.exit(error) : 0;
  }
  command();
  return 0;
}

}  // namespace mrmf
