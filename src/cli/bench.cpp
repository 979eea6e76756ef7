// `mrmf bench`: the benchmarks of files, ranks and machines, and the list of all.
#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include "mpi/comm.hpp"
#include "src/bench/bench.hpp"
#include "src/cli/commands.hpp"
#include "src/cli/data_sample.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {
namespace {

constexpr const char* kConfig = "configuration file (TOML): its data, batch and last resolution";

// What the file has from before, for `now` to be added to. ConfigError for another machine's.
CostTables earlier_tables(const CostTables& now, const std::string& file, bool fresh) {
  std::error_code none;
  if (fresh || !std::filesystem::exists(file, none)) return now;
  CostTables earlier = read_tables(file);
  if (earlier.machine.processor != now.machine.processor || earlier.library != now.library)
    throw ConfigError(file + ": these tables are from another processor, library or precision (" +
                      earlier.machine.processor + ", " + earlier.library +
                      "); give --fresh to replace them, or another --output");
  return earlier;
}

void keep_tables(const CostTables& tables, const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  if (!folder.empty()) make_folders(folder);
  write_file(file, to_json(tables), Replace::file);
  std::size_t times = 0;
  for (const TeamTables& team : tables.teams) times += team.operations.size();
  std::cout << fmt::format("{}: {} times of operations, of {} number{} of ranks\n", file, times, tables.teams.size(),
                           tables.teams.size() == 1 ? "" : "s");
}

void add_bench_io(CLI::App& bench, Subcommands& commands) {
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
    BenchIo bench;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "io", "how fast training samples come out of the files, beside a plain read; also under mpirun");
  add_config(*sub, options->config, options->overrides, kConfig);
  sub->add_option("--rounds", options->bench.rounds, "measure this often and print medians")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--json", options->bench.json.file, "file to write the figures to");
  add_overwrite(*sub, options->bench.json.replace);
  add_example(*sub, "mrmf bench io mine.toml --rounds 3");
  commands.run(*sub, [=, &world = commands.world] {
    if (world.root()) options->bench.json.require();
    BenchIo io = options->bench;
    io.config = read_config(options->config, options->overrides);
    if (io.config.method.name == MethodName::automatic) io.config = baseline_of(io.config);  // reads the same samples
    omp_set_num_threads(choose_threads(io.config.run.threads, world));
    bench_io(io, world, std::cout);
  });
}

void add_scaling(CLI::App& bench, Subcommands& commands) {
  struct Options {
    std::string config;
    std::vector<std::string> overrides;
    std::vector<std::string> grids;
    ScalingSettings settings;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "scaling", "epochs of a configuration's last model on 1, 2, ... ranks of this job, under mpirun or srun");
  add_config(*sub, options->config, options->overrides, kConfig);
  sub->add_option("--ranks", options->settings.ranks,
                  "teams to measure, such as 1,2,4; powers of two and all unless given")
      ->delimiter(',');
  sub->add_flag(
      "--weak", options->settings.weak,
      "keep the batch of a rank, or of a group that shares samples; otherwise the mini-batch over all is kept");
  sub->add_option("--grid", options->grids,
                  "ranks that share a sample, as blocks along its axes: 2,1,1 on all teams, or --grid once for each of "
                  "--ranks, or \"planned\" for the fastest by mrmf bench tables; run.grid's unless given")
      ->take_all()
      ->expected(1)
      ->type_name("BLOCKS");
  sub->add_option("--tables", options->settings.tables, "times for --grid planned; this machine's unless given");
  sub->add_option("--epochs", options->settings.epochs, "measured epochs per team, after one that is not")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--csv", options->settings.csv.file, "file to write the table to");
  sub->add_option("--json", options->settings.json.file, "file to write the figures to");
  sub->add_option("--plot", options->settings.plot.file, "image to draw, .png or .svg (needs Python with matplotlib)");
  add_overwrite(*sub, options->settings.csv.replace);
  add_example(*sub,
              "mpirun -n 2 mrmf bench scaling mine.toml --csv scaling.csv\n"
              "mpirun -n 2 mrmf bench scaling mine.toml --ranks 1,2 --grid 1 --grid 2");
  commands.run(*sub, [=, &world = commands.world] {
    options->settings.plot.replace = options->settings.json.replace = options->settings.csv.replace;
    ScalingSettings settings = options->settings;
    settings.planned = options->grids == std::vector<std::string>{"planned"};
    if (!settings.planned) std::ranges::transform(options->grids, std::back_inserter(settings.grids), parse_grid);
    if (!settings.tables.empty() && !settings.planned) throw ConfigError("--tables goes with --grid planned alone");
    const Config config = with_schedule(read_config(options->config, options->overrides), "", world);
    bench_scaling(config, settings, world, std::cout);
  });
}

void add_tables(CLI::App& bench, Subcommands& commands) {
  struct Options {
    std::string config, sample;
    std::vector<std::string> overrides;
    TablesSettings settings;
    std::string output;
    bool fresh = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* sub = bench.add_subcommand(
      "tables", "what mrmf plan --ranks needs to know of this machine; start as many ranks as a node of the run has");
  sub->add_option("config", options->config, "configuration file (TOML): its networks; every preset unless given");
  sub->add_option("--set", options->overrides, "override a key: --set training.batch=256")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
  add_sample(*sub, options->sample);
  sub->add_option("--ranks", options->settings.ranks, "measure the grids of so many ranks; as many as are started")
      ->check(above_zero());
  sub->add_option("--threads", options->settings.threads, "threads per rank; 0: all cores that the rank may use")
      ->check(not_negative());
  sub->add_option("--rounds", options->settings.rounds,
                  "measure this often, one round after the other, and keep medians")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--seconds", options->settings.seconds, "of timed steps for every network and block, over all rounds")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("-o,--output", options->output,
                  "file to add the tables to; tables-HOST.json in ~/.cache/mrmf unless given");
  sub->add_flag("--fresh", options->fresh, "drop what the file has from before");
  add_example(*sub,
              "mpirun -n 2 mrmf bench tables mine.toml --seconds 0.02 -o tables.json\n"
              "mrmf plan mine.toml --ranks 2 --tables tables.json");
  options->settings.threads = 0;
  commands.run(*sub, [=, &world = commands.world] {
    RunConfig run;
    TablesSettings settings = options->settings;
    if (!options->config.empty()) {
      settings.config = with_schedule(read_config(options->config, options->overrides), options->sample, world);
      settings.sample = data_sample(*settings.config, options->sample, world).shape;
      run = settings.config->run;
    }
    if (settings.threads > 0) run.threads = settings.threads;
    run.device = Device::cpu;
    run.threads = settings.threads = choose_threads(run.threads, world);
    const auto backend = make_backend(run, world);
    const std::string file = options->output.empty() ? tables_file() : options->output;
    CostTables tables;
    collective_try(world, [&] {  // before anything is measured
      if (world.root()) tables = earlier_tables(no_tables(*backend), file, options->fresh);
    });
    const CostTables measured = measure_tables(settings, *backend, world, std::cout);
    if (!world.root()) return;
    tables.merge(measured);
    keep_tables(tables, file);
  });
}

void add_network(CLI::App& bench, Subcommands& commands) {
  auto settings = std::make_shared<SumBenchSettings>();
  CLI::App* sub = bench.add_subcommand(
      "network", "sums over ranks, by how their values travel (training.communication), beside what the bytes take");
  sub->add_option("--values", settings->values, "lengths of the sums")
      ->delimiter(',')
      ->check(above_zero())
      ->type_name("N,...");
  sub->add_option("--times", settings->times, "timed sums of each kind, of which the median is taken")
      ->check(above_zero())
      ->capture_default_str();
  sub->add_option("--gbit", settings->gbit, "Gbit/s of each rank's link; measured unless given")->check(above_zero());
  add_json(*sub, settings->print_json);
  add_example(*sub, "mpirun -n 2 mrmf bench network --values 10000 --times 2");
  commands.run(*sub, [=, &world = commands.world] { bench_network(*settings, world, std::cout); });
}

}  // namespace

void add_bench(Subcommands& commands) {
  CLI::App* bench = commands.app.add_subcommand(
      "bench", "measure this machine: training speed, scaling over ranks, reading of files");
  bench->require_subcommand(1);
  add_bench_io(*bench, commands);
  add_scaling(*bench, commands);
  add_tables(*bench, commands);
  add_network(*bench, commands);
  add_bench_steps(*bench, commands);
  add_example(*bench, "mrmf bench training --batch 32 --steps 3 --json speed.json");
}

}  // namespace mrmf
