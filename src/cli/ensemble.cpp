// `mrmf ensemble`: many members of one design, made side by side and collected.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <memory>

#include "io/files/output_file.hpp"
#include "kernels/errors.hpp"
#include "src/cli/commands.hpp"
#include "src/ensemble/design.hpp"
#include "src/ensemble/ensemble.hpp"
#include "src/ensemble/members.hpp"
#include "src/run/run_log.hpp"

namespace mrmf {
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
