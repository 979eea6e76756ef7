// `mrmf presets`: lists the named networks, and all keys of the configuration.
#include "src/config/model_config.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "mpi/comm.hpp"
#include "src/cli/commands.hpp"
#include "src/config/config.hpp"
#include "src/config/key_table.hpp"

namespace mrmf {
namespace {

std::string presets_text() {
  std::string text;
  for (const Preset& preset : preset_list())
    text += preset.name + "  " + preset.description + "; samples " + preset.sample + "\n";
  return text;
}

std::string presets_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Preset& preset : preset_list())
    all.push_back({{"name", preset.name},
                   {"description", preset.description},
                   {"sample", preset.sample},
                   {"benchmark_batch", preset.batch}});
  return nlohmann::ordered_json{{"presets", all}}.dump(2) + "\n";
}

}  // namespace

void add_presets(Subcommands& commands) {
  CLI::App* presets = commands.app.add_subcommand(
      "presets", "list the networks that model.preset can name, or all keys of the configuration");
  auto keys = std::make_shared<bool>(), json = std::make_shared<bool>();
  presets->add_flag("--keys", *keys, "every key of the configuration with its default and meaning");
  add_json(*presets, *json, "print the same as one JSON object");
  add_example(*presets, "mrmf presets --keys");
  commands.run(*presets, [=, &world = commands.world] {
    if (!world.root()) return;
    const auto print = *keys ? (*json ? keys_json : describe_keys) : (*json ? presets_json : presets_text);
    std::cout << print();
  });
}

}  // namespace mrmf
