// Finished runs: `mrmf compare`, `mrmf plot` and `mrmf report`.
#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/inference/describe_model.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

// `mrmf compare`: finished runs side by side.

void add_compare(Subcommands& commands) {
  CLI::App* compare = commands.app.add_subcommand(
      "compare",
      "print a table of finished runs, a column per method with mean and spread over seeds, and what each method "
      "saves; at equal loss where there are baselines of two lengths or more (>=: at least, as no baseline ends as "
      "low; <=: at most, as every baseline ends lower)");
  auto folders = std::make_shared<std::vector<std::string>>();
  auto options = std::make_shared<CompareOptions>();
  auto target = std::make_shared<double>();
  compare->add_option("runs", *folders, "run folders")->required();
  const CLI::Option* given =
      compare->add_option("--target", *target, "also the cost until the validation loss first reached this");
  compare->add_option("--baselines", options->baselines,
                      "a file that compare --csv wrote: its baselines are the curve for savings at equal loss");
  auto csv = std::make_shared<bool>(), json = std::make_shared<bool>();
  CLI::Option* lines = compare->add_flag("--csv", *csv, "print the runs behind the table, a line of values each");
  compare->add_flag("--json", *json, "print the table's columns, their runs and figures as JSON")->excludes(lines);
  add_example(*compare, "mrmf compare runs/mine runs/mine-2");
  commands.run(*compare, [=, &world = commands.world] {
    if (given->count() > 0) options->target = *target;
    options->width = output_width();
    if (!world.root()) return;
    print_warnings(leave_out_trials(*folders), world);
    const auto print = *csv ? compare_csv : *json ? compare_json : compare_table;
    std::cout << print(*folders, *options);
  });
}

// `mrmf plot`: draws the curves and times of runs, and what a model said against what is true.

void add_plot(Subcommands& commands) {
  CLI::App* plot = commands.app.add_subcommand(
      "plot", "draw losses over cost, times, or predicted against true labels (needs Python with matplotlib and h5py)");
  auto options = std::make_shared<PlotOptions>();
  plot->add_option("inputs", options->inputs, "run folders; for labels and confusion a file of mrmf predict")
      ->required();
  plot->add_option("--output,-o", options->output.file, "image to write, .png or .svg; without either, both")
      ->required();
  const Choices<PlotKind> kinds{{"loss", PlotKind::loss},         {"metric", PlotKind::metric},
                                {"training", PlotKind::training}, {"times", PlotKind::times},
                                {"labels", PlotKind::labels},     {"confusion", PlotKind::confusion}};
  add_choice(*plot, "--what", options->kind, kinds,
             "loss: validation loss over what training cost; metric, training: the validation metric or the training "
             "loss in its place; times: where the time of every stage went; labels: "
             "predicted against true numbers; confusion: how often each class was taken for each");
  plot->add_option("--x", options->x, "loss: what the horizontal axis counts")
      ->check(CLI::IsMember({"seconds", "gflop", "epochs"}))
      ->capture_default_str();
  plot->add_flag("--mean", options->mean, "loss: one line per method: the mean over its seeds, and their range");
  plot->add_option("--labels", options->labels, "labels and confusion: the true labels, one name per file of them")
      ->type_name("FILE:DATASET");
  add_overwrite(*plot, options->output.replace);
  add_example(*plot,
              "mrmf plot runs/mine runs/mine-2 --x gflop -o losses.svg\n"
              "mrmf plot runs/mine runs/mine-2 --what times -o times.svg\n"
              "mrmf predict runs/mine -o out.h5\n"
              "mrmf plot out.h5 --what labels --labels mydata.h5:val_parameters -o labels");
  commands.run(*plot, [=, &world = commands.world] {
    if (!world.root()) return;
    if (options->kind != PlotKind::labels && options->kind != PlotKind::confusion)
      print_warnings(leave_out_trials(options->inputs), world);
    for (const std::string& picture : draw(*options)) std::cout << picture << ": written\n";
  });
}

// `mrmf report`: finished runs as one HTML page.

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
