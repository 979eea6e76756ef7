// `mrmf plan --ranks`: which grid of ranks suits every phase of a plan, by prediction. Private to src/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "mpi/comm.hpp"
#include "src/cli/data_sample.hpp"
#include "src/planner/grid_search.hpp"

namespace mrmf {

struct RanksOptions {
  int ranks = 0;  ///< 0: nothing is predicted
  int per_node = 0;
  std::string tables, machine;
  double memory = 0;  ///< GB of a rank
  Index batch = 0;
  double samples = 0, validated = 0;
};

void add_ranks(CLI::App& plan, RanksOptions& options);

/// What the search found, and by which model.
struct RanksPlan {
  std::string model;
  std::vector<std::string> assumptions;
  std::vector<PhaseChoices> phases;
  std::vector<OneGrid> all;  ///< grids for the whole run
  int ranks = 1, axes = 1;
};

/// Collective. ConfigError where nothing fits, DataError without tables.
RanksPlan plan_ranks(const Config& config, const DataSample& sample, const RanksOptions& options, Comm& world);

std::string to_text(const RanksPlan& plan);
nlohmann::ordered_json to_json(const RanksPlan& plan);
/// The configuration with the best grid for the whole run and the batch that goes with it.
Config with_grid(const Config& config, const RanksPlan& plan);

}  // namespace mrmf
