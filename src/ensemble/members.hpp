// What makes an ensemble's members: a simulator, trainings, or a program of the user's.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/ensemble/design.hpp"
#include "src/simulators/member_simulator.hpp"

namespace mrmf {

/// Where members do their work, and whether they are to stop.
struct Workplace {
  std::string folder;  ///< of the ensemble, or of its part
  const std::atomic<bool>& stop;
  int threads = 1;  ///< of a child process
};

/// A member's error when it did not fail but was told to stop: it is as if it had never begun.
inline constexpr const char* kToldToStop = "told to stop";

/// Members of a spec. Those that are child processes work below the folder of `workplace`, which must outlive this.
std::unique_ptr<MemberSimulator> make_members(const EnsembleSpec& spec, const Workplace& workplace);

/// The parts of every member's row.
std::vector<MemberArray> row_arrays_of(const EnsembleSpec& spec);

/// The values that make() takes for a point.
std::vector<double> values_of(const EnsembleSpec& spec, const Point& point);

/// The folder of a member's training, below that of the ensemble.
std::string training_folder(const std::string& folder, Index member);

/// How a member is trained: the keys that it sets. `done`: its run has ended already.
struct TrainingCall {
  std::string run;
  std::vector<std::string> settings;
  bool done = false;
};
TrainingCall training_call(const EnsembleSpec& spec, const std::string& folder, Index member, const Point& point);
/// The row of a finished run. DataError where its result cannot be read.
void read_training(const std::string& run, std::span<std::byte> row);

/// Names of the numbers of a training's row.
inline constexpr const char* kTrainingResults[] = {"validation_loss", "best_validation_loss", "epochs",
                                                   "training_seconds"};

}  // namespace mrmf
