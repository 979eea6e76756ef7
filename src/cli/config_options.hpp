// The configuration file and its overrides, as every subcommand that takes them spells them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "io/output_file.hpp"

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

/// The flag of every command that has an output.
inline void add_overwrite(CLI::App& app, Replace& replace,
                          const std::string& what = "replace an output that is there") {
  app.add_flag_callback(
      "--overwrite", [&replace] { replace = Replace::file; }, what);
}

}  // namespace mrmf
