// The trained model that a user names: a run's folder, or a model file.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/model_file.hpp"

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

/// Which of a run's models is wanted.
struct WantedModel {
  bool checkpoint = false;          ///< the newest checkpoint's, of a run that is not done
  std::optional<WhichEpoch> epoch;  ///< epoch of a run that is done; the best unless given
};

/// `from` is a run's folder or a model file. DataError when there is no such model, with what to do. Collective.
ModelChoice choose_model(const std::string& from, const WantedModel& wanted, Comm& world);

/// The epoch of the model in a file.
struct EpochOfModel {
  std::string text{};  ///< "FILE: epoch 3 of 8, validation 0.2, the best one"; empty: the file does not know
  bool later = false;  ///< epochs came after this one
};
EpochOfModel epoch_of(const std::string& file, Comm& world);  ///< Collective.

/// Prints the same, and how to take the last one. Collective.
void tell_epoch(const std::string& file, std::ostream& out, Comm& world);

/// Looks for missing relative files where the run was started, too: above its folder, according to run.folder.
void find_from_run(std::vector<std::string>& files, const ModelChoice& choice);

}  // namespace mrmf
