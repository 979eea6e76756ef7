// `mrmf bench`: its benchmarks and their options.
#include <fmt/format.h>
#include <omp.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>

#include "io/values/element_type.hpp"
#include "layers/execution.hpp"
#include "mpi/comm.hpp"
#include "src/bench/bench.hpp"
#include "src/cli/commands.hpp"
#include "src/config/model_config.hpp"
#include "src/system/backend_choice.hpp"
#include "src/system/host_info.hpp"
#include "src/training/cpu_kernel_autotuning.hpp"

namespace mrmf {

// `mrmf bench`: the benchmarks of files, ranks and machines, and the list of all.

namespace {

constexpr const char* kConfig = "configuration file (TOML): its data, batch and last resolution";

// What the file has from before, for `now` to be added to. ConfigError for another machine's.
CostTables earlier_tables(const CostTables& now, const std::string& file, bool fresh) {
  std::error_code none;
  if (fresh || !std::filesystem::exists(file, none)) return now;
  CostTables earlier = read_tables(file);
  if (earlier.machine.processor != now.machine.processor || earlier.library != now.library)
    throw ConfigError(file + ": these tables are of another processor, library, precision or choice of kernels (" +
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

// `mrmf bench training`, `layers`, `parity` and `gradients`: steps of one network on one rank.

namespace {

enum class Benchmark { training, layers, parity, gradients };

struct BenchOptions {
  BenchSettings settings;
  std::string config, preset = "neuron_inverter";
  std::vector<std::string> overrides;
  std::string sample;  // "1600x3"; empty: the data's, or the preset's own
  Index length = 0;
  int batch = 0;  // 0: the configuration's, or the preset's own
  bool graph = true, fuse = true;
  double tolerance = 0;
  GradientTolerance gradients{};  // 0: by precision
  RunConfig run;
};

// Parity also runs on the CPU, so its samples are small unless the user says otherwise.
Shape bench_sample(const BenchOptions& options, bool parity) {
  const std::string usual = preset_sample(options.preset);
  const std::string small = parity && usual == "128x128x128x4" ? "64x64x64x4" : usual;
  Shape sample = parse_sample(options.sample.empty() ? small : options.sample);
  if (options.length > 0) sample.spatial[2] = options.length;
  return sample;
}

// Looks at the host's memory: the model's arenas, moments included, a batch and its copy. What is wrong; empty if it
// will do. A device reports when it is full.
std::string too_little_memory(Backend& backend, const BenchSettings& settings) {
  const ModelSettings model = settings.model();
  const Network network(backend, model.network);
  const int moments = moment_count(settings.optimizer, settings.in_place);
  const Index floats = build_execution(backend, network, model).floats(network, moments) + 2 * network.input().count();
  const double needed = static_cast<double>(floats * size_of(ElementType::float32)) / 1e9, there = host_memory() / 1e9;
  if (needed <= there) return "";
  return fmt::format(
      "--batch {}: {} of samples {} takes {:.3g} GB and {:.3g} GB may be used; give a smaller --batch or "
      "--sample",
      settings.batch(), settings.name, to_string(settings.network.sample), needed, there);
}

// The network of a preset, on its own samples unless the user says otherwise.
void take_preset(BenchOptions& options, bool parity) {
  const std::vector<LayerSpec> layers = preset_layers(options.preset);  // an unknown name fails here
  for (const Preset& preset : preset_list())
    if (preset.parts && preset.name == options.preset)
      throw ConfigError("--preset " + preset.name +
                        ": a network of several parts has no benchmark; name another preset");
  options.settings.name = options.preset;
  options.settings.network = {bench_sample(options, parity),
                              options.batch > 0 ? options.batch : preset_batch(options.preset), layers, ""};
}

// The network, batch, loss and optimizer of a configuration's last phase. Of the data only the headers are read, and
// not even they where --sample is given.
void take_config(BenchOptions& options, Comm& world) {
  const Config config = with_schedule(read_config(options.config, options.overrides), options.sample, world);
  if (!config.training.parts.terms.empty())
    throw ConfigError(options.config + ": a network of several parts has no benchmark");
  Shape sample = data_sample(config, options.sample, world).shape;
  if (options.length > 0) sample.spatial[2] = options.length;
  const Plan plan = make_plan(config);
  options.settings.name = options.config;
  options.settings.network = network_settings(config, plan, sample, plan.last.resolution);
  if (options.batch > 0) options.settings.network.max_rows = options.batch;
  options.settings.loss = config.training.loss;
  options.settings.optimizer = plan.last.optimizer;
  options.settings.in_place = config.training.update_in_place;
}

// About one and a half times the effect of rounding through all layers (docs/gpu.md). Rounding decides which of two
// values a max pooling takes, and on which side of zero a value lies. It does so in a share of all places that grows
// with the rounding, and a gradient that goes elsewhere is completely off. A missing gradient has a distance of 1.
GradientTolerance usual_tolerance(Precision precision) {
  if (precision == Precision::fp32) return {0.05, 0.005};  // a single place in small batches: 0.034 seen
  if (precision == Precision::tf32) return {0.22, 0.06};
  return {0.55, 0.17};
}

void compare_gradients(BenchOptions& options, Comm& world) {
  options.run.deterministic = true;
  const auto device = make_backend(options.run, world);
  RunConfig cpu;
  cpu.device = Device::cpu;
  cpu.backend = options.run.backend;
  const auto host = make_backend(cpu, world);
  // A machine with a GPU may have memory that grows.
  if (const std::string wrong = too_little_memory(*host, options.settings); !wrong.empty())
    std::cerr << "warning: " << wrong << '\n';
  GradientTolerance tolerance = usual_tolerance(options.run.precision);
  if (options.gradients.distance > 0) tolerance.distance = options.gradients.distance;
  if (options.gradients.along > 0) tolerance.along = options.gradients.along;
  bench_gradients({*device, *host, tolerance, options.fuse}, options.settings, std::cout);
}

void run_bench(Benchmark what, BenchOptions options, Comm& world) {
  if (world.size() > 1) throw ConfigError("mrmf bench measures one rank; start it without mpirun");
  options.settings.json.require();
  if (options.config.empty())
    take_preset(options, what == Benchmark::parity);
  else
    take_config(options, world);
  options.run.graphs = options.graph;
  if (what == Benchmark::parity) {
    // Adam amplifies gradients that are pure rounding (docs/numerics.md).
    options.settings.optimizer.name = OptimizerKind::sgd;
    options.settings.optimizer.learning_rate = 1e-3;
    options.run.deterministic = true;
    const auto device = make_backend(options.run, world);
    RunConfig cpu;
    cpu.device = Device::cpu;
    const auto host = make_backend(cpu, world);
    const Precision precision = options.run.precision;
    const double usual = precision == Precision::fp32 ? 1e-4 : precision == Precision::tf32 ? 1e-2 : 5e-2;
    bench_parity({*device, *host, options.tolerance > 0 ? options.tolerance : usual}, options.settings, std::cout);
    return;
  }
  if (what == Benchmark::gradients) {
    compare_gradients(options, world);
    return;
  }
  const auto backend = make_backend(options.run, world);
  if (backend->synchronous())
    if (const std::string wrong = too_little_memory(*backend, options.settings); !wrong.empty())
      throw ConfigError(wrong);
  if (const std::string line = choose_kernels(*backend, {options.settings.model()}, world); !line.empty())
    std::cout << line << '\n';
  if (what == Benchmark::training)
    bench_training(*backend, options.settings, std::cout);
  else if (backend->synchronous())
    bench_layers(*backend, options.settings, std::cout);
  else
    bench_device_layers(*backend, options.settings, options.run.precision, std::cout);
}

// Which network, of what size.
void add_network_options(CLI::App& sub, BenchOptions& options, bool parity) {
  CLI::Option* config = sub.add_option("config", options.config,
                                       "configuration file (TOML): the network, batch, loss and optimizer of its last "
                                       "phase, on made-up samples of the data's shape; a preset unless given");
  sub.add_option("--set", options.overrides, "override a key of the configuration: --set training.batch=256")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE")
      ->needs(config);
  sub.add_option("--preset", options.preset, "network (mrmf presets lists them)")
      ->capture_default_str()
      ->excludes(config);
  sub.add_option("--sample", options.sample,
                 "size of a sample, e.g. 64x64x64x4; the data's or the preset's own unless given");
  sub.add_option("--length", options.length, "positions along the last axis of a sample, instead of its own")
      ->check(above_zero());
  sub.add_option(
         "--batch", options.batch,
         parity ? "rows per step (4)"
                : "rows per step; those that the configuration computes at once, or the preset's own (neuron_inverter "
                  "512, cubes 8)")
      ->check(above_zero());
}

// What only some of the benchmarks have.
void add_own_options(CLI::App& sub, BenchOptions& options, Benchmark what) {
  if (what == Benchmark::parity)
    sub.add_option("--tolerance", options.tolerance,
                   "largest difference of a loss, relative to the largest loss so far; by precision unless given")
        ->check(above_zero());
  if (what == Benchmark::gradients) {
    sub.add_option("--distance", options.gradients.distance,
                   "largest relative difference of a gradient; by precision unless given")
        ->check(above_zero());
    sub.add_option("--fuse", options.fuse,
                   "on the GPU: layers that can be are computed together; off tells which of them an error is of")
        ->capture_default_str();
    sub.add_option("--along", options.gradients.along,
                   "largest part of the expected gradient that may lack or be too much; by precision unless given")
        ->check(above_zero());
  }
  if (what == Benchmark::training || what == Benchmark::layers)
    sub.add_option("--threads", options.run.threads, "0: all cores this process may use")
        ->check(not_negative())
        ->capture_default_str();
  if (what != Benchmark::parity)
    add_choice(sub, "--backend", options.run.backend, choices<CpuLibrary>(), "library on the CPU");
  if (what != Benchmark::training) return;
  sub.add_option("--first", options.settings.first,
                 "steps before the timed ones whose losses, and a hash of the parameters after them, go to --json")
      ->check(not_negative())
      ->capture_default_str();
  sub.add_flag("--deterministic", options.run.deterministic, "as run.deterministic: the same bits in every run");
  sub.add_flag("--profile", options.settings.profile, "let a profiler see one more step at the end, and no other");
}

// Parity and gradients compare a GPU with the CPU.
BenchOptions usual_options(Benchmark what) {
  BenchOptions options;
  const bool compares = what == Benchmark::parity || what == Benchmark::gradients;
  options.run.device = compares ? Device::cuda : Device::cpu;
  if (compares) options.run.precision = Precision::fp32;
  if (what == Benchmark::parity) options.batch = 4, options.settings.steps = 20;
  if (what == Benchmark::gradients) options.settings.steps = 3;
  return options;
}

}  // namespace

void add_bench_steps(CLI::App& bench, Subcommands& commands) {
  struct Kind {
    Benchmark what;
    const char *name, *meaning, *example;
  };
  const std::vector<Kind> kinds{{Benchmark::training, "training", "samples per second of whole training steps",
                                 "mrmf bench training --preset neuron_inverter --batch 32 --steps 3\n"
                                 "mrmf bench training mine.toml --steps 3"},
                                {Benchmark::layers, "layers",
                                 "each layer beside oneDNN's own best times, or on a GPU beside what its memory allows",
                                 "mrmf bench layers --length 400 --batch 16"},
                                {Benchmark::parity, "parity", "the same training steps on the GPU and on the CPU",
                                 "mrmf bench parity --length 400 --steps 3"},
                                {Benchmark::gradients, "gradients",
                                 "each layer's gradients on the GPU beside the CPU's, at the network's full size",
                                 "mrmf bench gradients --length 400 --batch 4"}};
  for (const auto& [what, name, meaning, example] : kinds) {
    const auto options = std::make_shared<BenchOptions>(usual_options(what));
    CLI::App* sub = bench.add_subcommand(name, meaning);
    add_network_options(*sub, *options, what == Benchmark::parity);
    sub->add_option("--steps", options->settings.steps,
                    what == Benchmark::parity || what == Benchmark::gradients ? "steps" : "timed steps")
        ->check(above_zero())
        ->capture_default_str();
    add_choice(*sub, "--device", options->run.device, choices<Device>(), "what to compute on");
    add_choice(*sub, "--precision", options->run.precision, choices<Precision>(),
               "what is multiplied; on a CPU, bf16 or float32");
    add_own_options(*sub, *options, what);
    sub->add_option("--graph", options->graph, "on a GPU: replay captured steps (on or off)")->capture_default_str();
    sub->add_option("--json", options->settings.json.file, "file to write the figures to");
    add_overwrite(*sub, options->settings.json.replace);
    add_example(*sub, example);
    commands.run(*sub, [=, &world = commands.world, kind = what] { run_bench(kind, *options, world); });
  }
}

}  // namespace mrmf
