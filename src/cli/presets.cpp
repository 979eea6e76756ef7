// `mrmf presets`: lists the named networks, and all keys of the configuration.
#include "src/config/presets.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"

namespace mrmf {

void add_presets(Subcommands& commands) {
  CLI::App* presets =
      commands.app.add_subcommand("presets", "list the networks that model.preset can name, or all keys");
  auto keys = std::make_shared<bool>();
  presets->add_flag("--keys", *keys, "every key of the configuration with its default and meaning");
  commands.run(*presets, [=, &world = commands.world] {
    if (!world.root()) return;
    if (*keys)
      std::cout << describe_keys();
    else
      for (const Preset& preset : preset_list())
        std::cout << preset.name << "  " << preset.description << "; samples " << preset.sample << "\n";
  });
}

}  // namespace mrmf
