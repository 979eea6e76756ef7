// `mrmf plot`: draws the curves of finished runs.
#include <CLI/CLI.hpp>
#include <memory>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/compare/compare.hpp"

namespace mrmf {

void add_plot(Subcommands& commands) {
  CLI::App* plot = commands.app.add_subcommand(
      "plot", "draw validation loss over what training cost (needs Python with matplotlib)");
  auto options = std::make_shared<PlotOptions>();
  plot->add_option("runs", options->runs, "run folders")->required();
  plot->add_option("--output,-o", options->output.file, "image to write, .png or .svg")->required();
  plot->add_option("--x", options->x, "what the horizontal axis counts")
      ->check(CLI::IsMember({"seconds", "gflop", "epochs"}))
      ->capture_default_str();
  add_overwrite(*plot, options->output.replace);
  plot->add_flag("--mean", options->mean, "one line per method: the mean over its seeds, and their range");
  commands.run(*plot, [=, &world = commands.world] {
    if (world.root()) plot_runs(*options);
  });
}

}  // namespace mrmf
