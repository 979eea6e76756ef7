// The trained model that a command line names: a run's folder, or a model file. Private to src/cli.
#pragma once

#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"

namespace mrmf {

struct ModelChoice {
  Config config;    ///< with which it was trained
  std::string run;  ///< the folder of its run; "" of a model file
  std::string file;
  Extent resolution{1, 1, 1};
  std::string text;  ///< describes a model that is not a finished run's; else ""

  /// Files that a command with this model reads, beside data.
  std::vector<std::string> inputs() const;
};

/// `from` is a run's folder or a model file. Of a run: the finished model or, with `checkpoint`, the newest
/// checkpoint's. DataError when there is none, with what to do. Collective.
ModelChoice choose_model(const std::string& from, bool checkpoint, Comm& world);

/// Looks for missing relative files where the run was started, too: above its folder, according to run.folder.
void find_from_run(std::vector<std::string>& files, const ModelChoice& choice);

}  // namespace mrmf
