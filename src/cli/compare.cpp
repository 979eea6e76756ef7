// `mrmf compare`: finished runs side by side.
#include "src/compare/compare.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

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

}  // namespace mrmf
