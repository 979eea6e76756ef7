// The command line: one parser with all subcommands (src/cli/commands.hpp), and checks before any of them runs.
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "generated/version.hpp"
#include "io/files/text.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"

namespace mrmf {
namespace {

// CLI11 says only that a subcommand is missing.
void require_known_subcommand(const CLI::App& app, const std::vector<const char*>& words) {
  if (words.size() < 2 || words[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string given = words[1];
  if (std::ranges::find(names, given) == names.end())
    throw ConfigError("there is no subcommand '" + given + "'" + did_you_mean(given, names) + " (see mrmf --help)");
}

// "mrmf bench scaling": the subcommand that was parsed, also where its parsing failed.
std::string parsed_command(const CLI::App& app) {
  std::string words = "mrmf";
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    words += " " + at->get_name();
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text = "mrmf";
  for (const std::string& word : words) text += " " + word;
  constexpr std::size_t most = 200;
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

// Ranks with different commands would meet in collective calls that do not belong together.
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
      "coarse models learn on averaged-down data first, and their layers are transferred to finer models.\n"
      "Begin with mrmf init FILE.h5, which writes a configuration; then mrmf plan and mrmf train.\n"
      "Each command has a --help of its own. Under mpirun or srun, each process is a rank.\n"
      "Exit codes: 0 done, 2 usage or configuration, 3 data, 4 fault, 75 stopped by a signal and saved."};
  app.set_version_flag("--version", std::string("mrmf ") + kVersion + " (" + kGitHash + ")");
  app.require_subcommand(1);
  Subcommands commands{app, world};
  for (const AddCommand add : kSubcommands) add(commands);
  add_example(app,
              "mrmf init mydata.h5\nmrmf data run.toml\nmrmf plan run.toml\n"
              "mrmf train run.toml --set training.epochs=2\nmrmf evaluate runs/first");
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && std::string(argv[1]) == "help") {  // "mrmf help train"
    words.erase(words.begin() + 1);
    words.push_back("--help");
  }
  require_known_subcommand(app, words);
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      throw ConfigError(std::string(error.what()) + " (see " + parsed_command(app) + " --help)");
    return world.root() ? app.exit(error) : 0;
  }
  commands.chosen();
  return 0;
}

void add_wanted(CLI::App& app, WantedModel& wanted) {
  const Choices<WhichEpoch> epochs{{"best", WhichEpoch::best}, {"last", WhichEpoch::last}};
  add_choice(app, "--epoch", wanted.epoch, epochs,
             "best or last: which epoch's model to use; the best one unless given");
  app.add_flag("--checkpoint", wanted.checkpoint, "use the newest checkpoint of a run that is not done");
}

void add_model_options(CLI::App& sub, ModelOptions& options) {
  sub.add_option("--files", options.files, "HDF5 files to use instead of the run's");
  const Choices<Subset> splits{{"train", Subset::train}, {"validation", Subset::validation}, {"test", Subset::test}};
  add_choice(sub, "--split", options.split, splits,
             "train, validation or test: whose rows and data set names to use; validation unless given");
  sub.add_option("--samples", options.samples,
                 "name of the data set of samples, e.g. test_frames; once for each where the run has several")
      ->expected(1)
      ->allow_extra_args(false)  // a list would take the run's folder that follows
      ->take_all();
  sub.add_option(
      "--groups", options.groups,
      "the groups that are samples, such as \"test/*\", of a run with data.rows = \"groups\"; the run's unless "
      "given");
  add_choice(sub, "--missing", options.missing, choices<MissingRule>(),
             "rows that were never written: refuse them, or take the fill value; the run's data.missing unless given");
  add_choice(sub, "--not-finite", options.not_finite, choices<NotFiniteRule>(),
             "rows with NaN or infinity: refuse them, leave them out, or fill what is missing (NaN) in samples; the "
             "run's data.not_finite unless given");
  add_choice(
      sub, "--packing", options.packing, choices<PackingRule>(),
      "scales, offsets and missing numbers of netCDF and CF: apply or ignore them; the run's data.packing unless "
      "given");
  add_choice(sub, "--duplicates", options.duplicates, choices<DuplicateRule>(),
             "the same rows named twice: refuse them, or take them twice; the run's data.duplicates unless given");
  add_wanted(sub, options.wanted);
}

}  // namespace mrmf
