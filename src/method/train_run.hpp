// A whole training run: from a configuration to a finished run folder. `mrmf train` is a call of this, and so is a
// program of yours that trains (docs/guide/installing.md).
#pragma once

#include <iosfwd>
#include <string>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/records.hpp"

namespace mrmf {

/// What a run is told beside its configuration.
struct TrainRun {
  bool overwrite = false;       ///< begin anew in a folder that holds a run, finished or not
  std::ostream* out = nullptr;  ///< for lines to people, on the root; none: the run is silent. Must outlive the call
  bool terminal = false;        ///< `out` is a terminal: show a live progress line
  std::string config_file{};    ///< the file that the configuration was read from; "" when there is none
  bool continued = false;       ///< config is of the run in its folder; its last phase may have more epochs
  bool more_epochs = false;     ///< it has
  bool changed_data = false;    ///< it may continue although the numbers in its data files have changed
};

/// Trains as the configuration says, into config.run.folder, or continues a run that was stopped there. Returns what
/// result.json says. Collective over `world`: every rank gives the same configuration.
///
/// While it trains it handles stop signals (src/run/signals.hpp). It throws Stopped when one came and the run is saved:
/// the same call then continues. Throws ConfigError, DataError and FaultError (kernels/check.hpp). An error that one of
/// several ranks sees alone is thrown there alone; MpiSession::abort() then ends the others.
RunResult train_run(Config asked, const TrainRun& train, Comm& world);

}  // namespace mrmf
