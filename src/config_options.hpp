// The configuration file and its overrides, as every subcommand that takes them spells them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace mrmf {

/// `what` describes the file in --help.
inline void add_config(CLI::App& app, std::string& config, std::vector<std::string>& overrides,
                       const std::string& what = "configuration file (TOML)") {
  app.add_option("config", config, what)->required();
  app.add_option("--set", overrides, "override a key: --set training.batch=256")
      ->take_all()
      ->expected(1)
      ->type_name("KEY=VALUE");
}

}  // namespace mrmf
