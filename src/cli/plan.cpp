// `mrmf plan`: prints the plan of a run, before anything runs.
#include "src/plan/plan.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"

namespace mrmf {

void add_plan(Subcommands& commands) {
  CLI::App* plan = commands.app.add_subcommand(
      "plan", "print the phases and fusions of a run: what is trained, fused and finetuned, and until when");
  auto file = std::make_shared<std::string>();
  auto overrides = std::make_shared<std::vector<std::string>>();
  auto json = std::make_shared<bool>();
  add_config(*plan, *file, *overrides);
  plan->add_flag("--json", *json, "as JSON, the form the run folder keeps");
  commands.run(*plan, [=, &world = commands.world] {
    const Config config = read_config(*file, *overrides);
    const Plan made = make_plan(config);
    print_warnings(config_warnings(config), world);
    if (world.root()) std::cout << (*json ? to_json(made) : to_text(made));
  });
}

}  // namespace mrmf
