// `mrmf report`: finished runs as one HTML page.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/inference/describe_model.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

void add_report(Subcommands& commands) {
  CLI::App* report = commands.app.add_subcommand(
      "report",
      "write one HTML page about finished runs, with curves, times, tables and configurations, to send to others");
  auto options = std::make_shared<ReportOptions>();
  auto output = std::make_shared<OutputOption>();
  auto target = std::make_shared<double>();
  report->add_option("runs", options->runs, "run folders")->required();
  report->add_option("--output,-o", output->file, "HTML file to write")->required();
  report->add_option("--title", options->title, "heading of the page; \"Training report\" unless given");
  const CLI::Option* given =
      report->add_option("--target", *target, "also the cost until the validation loss first reached this");
  auto split = std::make_shared<Subset>(Subset::validation);
  const Choices<Subset> splits{{"validation", Subset::validation}, {"test", Subset::test}};
  add_choice(*report, "--split", *split, splits,
             "validation or test: the samples on which models are scored and shown; validation unless given");
  auto no_models = std::make_shared<bool>();
  report->add_flag("--no-models", *no_models, "run no model: leave out scores and pictures, which need the data");
  report->add_option("--baselines", options->compare.baselines,
                     "a file that compare --csv wrote: its baselines are the curve for savings at equal loss");
  add_overwrite(*report, output->replace);
  add_example(*report, "mrmf report runs/mine runs/mine-2 -o report.html");
  commands.run(*report, [=, &world = commands.world] {
    if (!world.root()) return;
    output->require();
    print_warnings(leave_out_trials(options->runs), world);
    if (given->count() > 0) options->compare.target = *target;
    Comm self = Comm::self();
    if (!*no_models)
      for (const std::string& run : described_runs(options->runs))
        options->models.push_back(describe_model(run, *split, self));
    output->write(report_page(*options));
    std::cout << output->file << ": written\n";
  });
}

}  // namespace mrmf
