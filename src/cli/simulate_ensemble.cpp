// `mrmf simulate` and `mrmf ensemble`: data sets made by simulators.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/ensemble/ensemble.hpp"
#include "src/ensemble/spec_and_design.hpp"
#include "src/run/run_log.hpp"
#include "src/simulators/cosmology/simulate.hpp"
#include "src/simulators/fields/fields.hpp"
#include "src/simulators/implosion/simulate.hpp"
#include "src/simulators/neuron/simulate.hpp"
#include "src/simulators/volumes/simulate.hpp"
#include "src/system/backend_choice.hpp"

namespace mrmf {

// `mrmf simulate`: its options, and its output while a data set is made.

namespace {

// On a terminal, how many there are so far.
ProgressFunction progress_line(const char* what, bool live) {
  return [what, live](Index done, Index samples) {
    if (live) std::cout << fmt::format("\rsimulating: {} of {} {}", done, samples, what) << std::flush;
  };
}

void make_neuron(NeuronSimulation settings, Comm& world) {
  check(settings);
  settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const NeuronReport report = simulate_neuron(settings, world, progress_line("samples", live));
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} samples of {} cells in {:.1f} s, {:.0f} samples/s; {:.0f} % of them spike\n",
                           live ? "\r\x1b[K" : "", settings.file, report.samples, settings.cells, report.seconds,
                           report.samples_per_second, 100 * report.spiking_share);
}

void make_cosmology(CosmologySimulation settings, Comm& world) {
  check(settings);
  if (settings.ranks_per_cube == 1) settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const CosmologyReport report = simulate_cosmology(settings, world, progress_line("cubes", live));
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} cubes of {}^3 voxels in {} files in {:.1f} s, {:.3g} cubes/s\n",
                           live ? "\r\x1b[K" : "", settings.folder, report.samples, settings.size, report.files,
                           report.seconds, report.cubes_per_second);
}

void make_fields(FieldsSimulation settings, Comm& world) {
  check(settings);
  settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const SimulationReport report = simulate_fields(settings, world, progress_line("samples", live));
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} samples of {}, {} x {} pixels, in {:.1f} s, {:.0f} samples/s\n",
                           live ? "\r\x1b[K" : "", settings.file, report.samples, to_string(settings.kind),
                           settings.size, settings.size, report.seconds, report.samples_per_second);
}

void make_volumes(VolumesSimulation settings, Comm& world) {
  check(settings);
  settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const VolumesReport report = simulate_volumes(settings, world, progress_line("volumes", live));
  if (!world.root()) return;
  std::cout << fmt::format(
      "{}{}: {} volumes of {}^3 voxels in {:.1f} s, {:.3g} volumes/s; {:.0f} % of the voxels are "
      "filled\n",
      live ? "\r\x1b[K" : "", settings.file, report.samples, settings.size, report.seconds, report.samples_per_second,
      100 * report.filled);
}

void make_implosion(ImplosionSimulation settings, Comm& world) {
  check(settings);
  settings.threads = choose_threads(settings.threads, world);
  const bool live = world.root() && stdout_is_terminal();
  const SimulationReport report = simulate_implosion(settings, world, progress_line("samples", live));
  if (!world.root()) return;
  std::cout << fmt::format("{}{}: {} implosions, four images of {} x {} pixels each, in {:.1f} s, {:.0f} samples/s\n",
                           live ? "\r\x1b[K" : "", settings.file, report.samples, settings.size, settings.size,
                           report.seconds, report.samples_per_second);
}

void add_shares(CLI::App& app, double& train, double& validation, double& test) {
  app.add_option("--train", train, "share of the samples for training")->capture_default_str();
  app.add_option("--validation", validation, "share for validation (val_ in the file)")->capture_default_str();
  app.add_option("--test", test, "share for testing; the three add up to 1 (80/10/10 unless given)")
      ->capture_default_str();
}

void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads,
                 "threads per rank; 0: all cores that the rank may use, shared evenly with other ranks on them")
      ->check(not_negative())
      ->capture_default_str();
}

void add_simulate_neuron(CLI::App& simulate, Subcommands& commands) {
  CLI::App* neuron = simulate.add_subcommand(
      "neuron", "voltage traces of multi-compartment Hodgkin-Huxley cells and the 19 conductances behind each");
  auto options = std::make_shared<NeuronSimulation>();
  neuron->add_option("--output,-o", options->file, "HDF5 file to write")->required();
  neuron->add_option("--samples,-n", options->samples, "number of samples in all three splits")
      ->check(above_zero())
      ->capture_default_str();
  neuron->add_option("--cells", options->cells, "number of different cells")
      ->check(above_zero())
      ->capture_default_str();
  add_shares(*neuron, options->train, options->validation, options->test);
  neuron->add_option("--seed", options->seed, "seed; the same seed gives the same bytes")->capture_default_str();
  add_threads(*neuron, options->threads);
  add_overwrite(*neuron, options->replace);
  add_example(*neuron, "mrmf simulate neuron -n 40 --cells 2 -o neurons.h5");
  commands.run(*neuron, [=, &world = commands.world] { make_neuron(*options, world); });
}

void add_simulate_cosmology(CLI::App& simulate, Subcommands& commands) {
  CLI::App* cubes = simulate.add_subcommand(
      "cosmology", "cubes of dark matter particles at four redshifts and the four parameters behind each");
  auto options = std::make_shared<CosmologySimulation>();
  const auto add = [&](const char* name, auto& value, const char* text) {
    return cubes->add_option(name, value, text)->capture_default_str();
  };
  cubes->add_option("--output,-o", options->folder, "folder for the HDF5 files; made when there is none")->required();
  add("--samples,-n", options->samples, "number of cubes in all three splits (80/10/10)");
  add("--per-file", options->per_file, "samples per file at most, 1 to 128");
  add("--size", options->size, "voxels per axis, a power of two");
  add("--box", options->box, "side in Mpc/h at H_0 = 70; a cube's is this times H_0 / 70");
  add("--particles", options->particles, "particles per voxel and axis: 1, 2, 4 or 8");
  const auto method = std::make_shared<std::string>(to_string(options->method));
  add("--method", *method, "lpt: displacements of second order; cola: time steps of gravity on top of them");
  add("--steps", options->steps, "cola: time steps");
  add("--mesh", options->mesh, "cola: mesh cells per particle and axis, 1 to 4");
  add("--seed", options->seed, "seed; the same seed gives the same bytes");
  add("--threads", options->threads,
      "threads per rank, each with whole cubes of its own; 0: all cores that the rank may use, shared evenly with "
      "other ranks on them, or 1 where ranks share a cube");
  add("--ranks-per-cube", options->ranks_per_cube,
      "ranks that share a cube that is too large for one: a power of two that divides the number of ranks, at most "
      "--size. The files have the same bytes for any number");
  add_overwrite(*cubes, options->replace);
  add_example(*cubes, "mrmf simulate cosmology -n 10 --size 16 -o cubes");
  commands.run(*cubes, [=, &world = commands.world] {
    options->method = read_displacement(*method);
    make_cosmology(*options, world);
  });
}

void add_simulate_fields(CLI::App& simulate, Subcommands& commands) {
  CLI::App* fields = simulate.add_subcommand(
      "fields",
      "2-D fields on a plane and the three parameters behind each: one kind that averaging keeps, one it loses");
  auto options = std::make_shared<FieldsSimulation>();
  fields->add_option("--output,-o", options->file, "HDF5 file to write")->required();
  Choices<FieldKind> kinds;
  for (const FieldKind kind : {FieldKind::heat, FieldKind::texture}) kinds.emplace_back(to_string(kind), kind);
  add_choice(*fields, "--kind", options->kind, kinds,
             "heat: frames of a field that spreads and drifts, which coarse pixels keep; texture: fine stripes on a "
             "smooth background, which they lose");
  fields->add_option("--samples,-n", options->samples, "number of samples in all three splits")
      ->check(above_zero())
      ->capture_default_str();
  fields->add_option("--size", options->size, "pixels per axis, an even number from 16 to 1024")->capture_default_str();
  add_shares(*fields, options->shares.train, options->shares.validation, options->shares.test);
  fields->add_option("--seed", options->seed, "seed; the same seed gives the same bytes")->capture_default_str();
  add_threads(*fields, options->threads);
  add_overwrite(*fields, options->replace);
  add_example(*fields, "mrmf simulate fields -n 100 --size 32 -o fields.h5");
  commands.run(*fields, [=, &world = commands.world] { make_fields(*options, world); });
}

void add_simulate_volumes(CLI::App& simulate, Subcommands& commands) {
  CLI::App* volumes = simulate.add_subcommand(
      "volumes", "noisy volumes with fractals of several classes, and the class at each position: to segment");
  auto options = std::make_shared<VolumesSimulation>();
  const auto add = [&](const char* name, auto& value, const char* text) {
    return volumes->add_option(name, value, text)->capture_default_str();
  };
  volumes->add_option("--output,-o", options->file, "HDF5 file to write")->required();
  add("--samples,-n", options->samples, "number of volumes in all three splits")->check(above_zero());
  add("--size", options->size, "voxels per axis, 8 to 256");
  add("--classes", options->classes, "classes of fractals, beside the background");
  add("--fractals", options->fractals, "fractals in each volume");
  add("--noise", options->noise, "deviation of the noise; a fractal's brightness is about 1");
  add_shares(*volumes, options->shares.train, options->shares.validation, options->shares.test);
  add("--seed", options->seed, "seed; the same seed gives the same bytes");
  add_threads(*volumes, options->threads);
  add_overwrite(*volumes, options->replace);
  add_example(*volumes, "mrmf simulate volumes -n 10 --size 16 -o volumes.h5");
  commands.run(*volumes, [=, &world = commands.world] { make_volumes(*options, world); });
}

void add_simulate_implosion(CLI::App& simulate, Subcommands& commands) {
  CLI::App* implosion = simulate.add_subcommand("implosion",
                                                "five numbers of a drive, and the 15 scalars and 4 images of the hot "
                                                "spot that it makes: an analytic stand-in for "
                                                "fusion simulations");
  auto options = std::make_shared<ImplosionSimulation>();
  implosion->add_option("--output,-o", options->file, "HDF5 file to write")->required();
  implosion->add_option("--samples,-n", options->samples, "number of samples in all three splits")
      ->check(above_zero())
      ->capture_default_str();
  implosion->add_option("--size", options->size, "pixels per axis of an image, an even number from 8 to 1024")
      ->capture_default_str();
  add_shares(*implosion, options->shares.train, options->shares.validation, options->shares.test);
  implosion->add_option("--seed", options->seed, "seed; the same seed gives the same bytes")->capture_default_str();
  add_threads(*implosion, options->threads);
  add_overwrite(*implosion, options->replace);
  add_example(*implosion, "mrmf simulate implosion -n 40 --size 16 -o implosions.h5");
  commands.run(*implosion, [=, &world = commands.world] { make_implosion(*options, world); });
}

}  // namespace

void add_simulate(Subcommands& commands) {
  CLI::App* simulate = commands.app.add_subcommand("simulate", "make a data set by simulation");
  simulate->require_subcommand(1);
  add_simulate_neuron(*simulate, commands);
  add_simulate_cosmology(*simulate, commands);
  add_simulate_fields(*simulate, commands);
  add_simulate_volumes(*simulate, commands);
  add_simulate_implosion(*simulate, commands);
  add_example(*simulate, "mrmf simulate fields -n 50 --size 32 --seed 2 -o more-fields.h5");
}

// `mrmf ensemble`: many members of one design, made side by side and collected.

namespace {

struct EnsembleOptions {
  std::string spec, part;
  std::vector<std::string> settings;
  OutputOption design;
  bool keys = false, dry_run = false, retry_failed = false, json = false;
};

// "3/20": task 3 of twenty, counted from 0 as Slurm's arrays are.
ArrayTask read_part(const std::string& text) {
  ArrayTask part;
  const std::size_t slash = text.find('/');
  const char *middle = text.data() + std::min(slash, text.size()), *end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), middle, part.index);
  const bool good = slash != std::string::npos && index.ec == std::errc{} && index.ptr == middle;
  const auto count = good ? std::from_chars(middle + 1, end, part.count) : index;
  if (!good || count.ec != std::errc{} || count.ptr != end || part.count < 2 || part.index < 0 ||
      part.index >= part.count)
    throw ConfigError("--part " + text + ": give a task and how many there are, as in 0/20 to 19/20");
  return part;
}

void print_report(const EnsembleReport& report) {
  std::cout << fmt::format("{} of {} members are done; {} were made in {:.1f} s\n", report.done, report.members,
                           report.made, report.seconds);
  if (!report.data.empty()) std::cout << "data: " << report.data << "\n";
}

void describe(EnsembleSpec spec, const EnsembleOptions& options) {
  const std::vector<Point> points = make_design(spec);
  row_arrays_of(spec);  // what a simulator does not take
  options.design.write(design_csv(spec, points));
  std::string keys;
  for (const Axis& axis : spec.design.axes) keys += (keys.empty() ? "" : ", ") + axis.key;
  std::cout << fmt::format("{} members that differ in {}\n", points.size(), keys);
}

void run_options(const EnsembleOptions& options, Comm& world) {
  if (options.keys) {
    if (world.root()) std::cout << ensemble_keys_text();
    return;
  }
  if (options.spec.empty())
    throw ConfigError("ensemble: name a file that says what is to be made (see mrmf ensemble --help)");
  const ArrayTask part = options.part.empty() ? ArrayTask{} : read_part(options.part);
  EnsembleSpec spec;
  collective_try(world, [&] { spec = read_ensemble(options.spec, options.settings); });
  if (options.dry_run || options.design.given()) {
    collective_try(world, [&] {
      if (world.root()) options.design.require({options.spec}), describe(spec, options);
    });
    return;
  }
  const int retries = spec.retries;
  const Index most_failed = spec.most_failed;
  std::ostream* out = options.json ? &std::cerr : &std::cout;
  const EnsembleReport report =
      run_ensemble(std::move(spec), {part, options.retry_failed, out, !options.json && stdout_is_terminal()}, world);
  if (world.root()) options.json ? (void)(std::cout << to_json(report)) : print_report(report);
  if (report.failed.empty()) return;
  const std::string failed = failed_text(report, retries);
  if (std::ssize(report.failed) > most_failed) throw FaultError(failed + "; --retry-failed tries them anew");
  if (world.root()) std::cerr << "mrmf: warning: " << failed << "\n";
}

}  // namespace

void add_ensemble(Subcommands& commands) {
  CLI::App* ensemble = commands.app.add_subcommand(
      "ensemble",
      "make many members of one design: simulations, trainings or calls of a program of yours, side by side on this "
      "machine's cores or on the ranks of mpirun, and collect them in one data set and one table; the same command "
      "continues");
  auto options = std::make_shared<EnsembleOptions>();
  ensemble->add_option("spec", options->spec, "file that says what is to be made (TOML; docs/guide/ensembles.md)");
  ensemble->add_option("--set", options->settings, "override a key: --set design.members=100")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
  ensemble->add_option(
      "--part", options->part,
      "make only this share of the members, as a task of a job array: 0/20 to 19/20; without it, the same command then "
      "collects what all parts have made");
  ensemble->add_option("--design", options->design.file, "write the members' values as CSV, and make nothing");
  ensemble->add_flag("--dry-run", options->dry_run,
                     "check the file and say how many members there are; make and write nothing");
  ensemble->add_flag("--retry-failed", options->retry_failed,
                     "try members again that have failed as often as ensemble.retries allows");
  ensemble->add_flag("--keys", options->keys,
                     "list all keys of such files, and those of each simulator, and make nothing");
  add_overwrite(*ensemble, options->design.replace, "replace a file of --design that is there");
  add_json(*ensemble, options->json);
  add_example(
      *ensemble,
      "printf '%s\\n' 'ensemble.folder = \"runs/heat\"' 'simulate = { simulator = \"heat\", size = 16 }' "
      "'design = { kind = \"sobol\", members = 20, keys.velocity_x = [-0.1, 0.1] }' > heat.toml\n"
      "mrmf ensemble heat.toml --dry-run\nmrmf ensemble heat.toml\nmrmf ensemble heat.toml --design points.csv");
  commands.run(*ensemble, [=, &world = commands.world] { run_options(*options, world); });
}

}  // namespace mrmf
