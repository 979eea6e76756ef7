// The sizes of teams that a run has measured, kept in its folder: a run that goes on must cut the ranks as before.
#pragma once

#include "src/teams.hpp"

namespace mrmf {

class MeasuredTeams {
 public:
  /// Collective over the world. A run without a folder to keep them in has none.
  MeasuredTeams(const RunConfig& run, Comm& world, bool kept);

  /// DataError: the file is none of ours. ConfigError: they were measured on another number of ranks. Collective.
  std::optional<TeamSizes> find(int stage);
  void keep(int stage, const TeamSizes& teams);

 private:
  std::string path_;  // empty: nowhere
  std::string text_;  // JSON: {"1": {"dense": 3, "coarse": 2}}
  Comm* world_;
};

/// Forgets what was measured: for a run that begins anew, or is done. The root acts.
void forget_teams(const RunConfig& run, const Comm& world);

}  // namespace mrmf
