// Which model of a run folder `mrmf evaluate` and `mrmf predict` take, and where the run's data is.
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

struct ModelChoice {
  std::string file;  ///< final.h5, or a checkpoint
  Extent resolution{1, 1, 1};
  std::string text;  ///< what it is, where it is not a finished run's model; else ""
};

/// The effective configuration of a run folder. DataError that says what was looked for where: no such folder, or not a
/// run's. On every rank alike.
Config read_run_config(const std::string& run);

/// The finished run's model; with `checkpoint` the newest checkpoint's. DataError: there is none, and what to do.
ModelChoice choose_model(const std::string& run, const Config& config, bool checkpoint);

/// Relative files that are not there from here are looked for where the run was started: above its folder, as
/// run.folder tells.
void find_from_run(std::vector<std::string>& files, const std::string& run, const Config& config);

}  // namespace mrmf
