// `mrmf plan --ranks`: which grid of ranks suits every phase of a plan, or which split concurrent teams, by prediction.
// Private to src/cli.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/cli/data_headers.hpp"
#include "src/rank_planner/rank_grid_search.hpp"

namespace mrmf {

struct RanksOptions {
  int ranks = 0;  ///< 0: nothing is predicted
  int per_node = 0;
  std::string tables, machine;
  double memory = 0;  ///< GB of a rank
  Index batch = 0;
  double samples = 0, validated = 0;  ///< 0: the data's
  bool layers = false;                ///< a table of them is printed
};

void add_ranks(CLI::App& plan, RanksOptions& options);

/// The same with as many samples as the data have, where no option says how many. 0: nobody knows. Collective;
/// DataError as headers_of()'s.
RanksOptions with_counts(RanksOptions options, const Config& config, const DataSample& sample, Comm& world);

/// What the search found, and by which model.
struct RanksProposal {
  std::string model;
  std::vector<std::string> assumptions;
  std::vector<PhaseChoices> phases;
  std::vector<OneGrid> all;  ///< grids for the whole run
  std::optional<GridPerResolution> by_resolution;
  std::vector<TeamChoice> splits;  ///< splits of concurrent teams
  int ranks = 1, axes = 1;
  bool layers = false;
  ProposedRun run;               ///< the best of it
  std::optional<Config> config;  ///< with that; none: no grids fit

  /// The best single grid, or one for each resolution where these are predicted at least 1 % faster. Empty: none fit.
  std::vector<Grid> grids() const;
};

/// `options`: with_counts(). Collective. ConfigError where nothing fits, DataError without tables.
RanksProposal plan_ranks(const Config& config, const DataSample& sample, const RanksOptions& options, Comm& world);

std::string to_text(const RanksProposal& plan);
nlohmann::ordered_json to_json(const RanksProposal& plan);
/// The configuration with the best grids, batches and split. ConfigError where nothing fits.
Config with_grid(const RanksProposal& plan);

}  // namespace mrmf
