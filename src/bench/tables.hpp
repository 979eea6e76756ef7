// `mrmf bench tables`: what the planner's predictions need to know of this machine.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/planner/cost_tables.hpp"

namespace mrmf {

struct TablesSettings {
  std::optional<Config> config;  ///< its networks; none: every preset at two sizes
  Shape sample;                  ///< shape of a sample of the configuration's data
  int ranks = 0;                 ///< grids of so many ranks are measured, too; 0: of this job's
  int threads = 1;               ///< threads of this rank
  int rounds = 3;                ///< all but reading is measured so often, one round after the other
  double seconds = 0.3;          ///< seconds of timed steps for every network and block, over all rounds
};

/// Tables of this machine and library, without any measurement.
CostTables no_tables(const Backend& backend);

/// Measures with as many ranks as take part, all at once, as in training. Times are medians over the rounds, so one
/// slow round does no harm to them. How long ranks wait for each other is a mean. Collective; the root has the result.
/// Prints a line for each network, and how far the rounds differ. ConfigError for a device: tables are for the CPU.
CostTables measure_tables(const TablesSettings& settings, Backend& backend, Comm& world, std::ostream& out);

}  // namespace mrmf
