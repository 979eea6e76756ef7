// A run's configuration, resolved for its data.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "src/plan/plan.hpp"

namespace mrmf {

/// Warnings for the run's log. They go to standard error when the run fails before it has a log.
class Warnings {
 public:
  explicit Warnings(const Comm& world) : world_(world) {}
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  ~Warnings();

  void add(const std::vector<std::string>& lines) { lines_.insert(lines_.end(), lines.begin(), lines.end()); }
  /// What was added; it is the caller's to tell now.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  const Comm& world_;
};

/// A run's configuration and plan, with all that follows from its data written out.
struct ResolvedRun {
  Config config;
  Plan plan;
  DatasetShape shape;
  std::vector<std::string> reasons;  ///< reasons of "auto"
  bool automatic = false;
  DatasetShape validation{};
};

/// Writes into a configuration what follows from the labels and numbers of its training data, for networks at these
/// resolutions: classes, units, class weights, names. ConfigError where the network does not fit the labels.
/// Returns warnings. Collective; reads samples and labels where these are measured.
std::vector<std::string> resolve_from_data(Config& config, const DatasetShape& train,
                                           const std::vector<Extent>& resolutions, Comm& world);

/// Runs before the data are loaded for training. Looks at files, and at samples where "auto" or units ask for them. An
/// impossible plan is refused: ConfigError. Collective.
ResolvedRun resolve_run(Config config, Warnings& warnings, Comm& world);

}  // namespace mrmf
