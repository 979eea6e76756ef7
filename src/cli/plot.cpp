// `mrmf plot`: draws the curves and times of runs, and what a model said against what is true.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

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

}  // namespace mrmf
