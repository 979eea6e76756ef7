// What a run has measured to cut its ranks into teams, kept in its folder: a run that goes on must cut them as before,
// and one that was stopped on the way need not measure again what it knows.
#pragma once

#include "src/method/teams.hpp"

namespace mrmf {

class MeasuredTeams {
 public:
  /// Collective over the world. A run without a folder to keep them in has none.
  MeasuredTeams(const Config& config, Comm& world, bool kept);

  /// DataError: the file is none of ours. ConfigError: they were measured on another number of ranks. Collective.
  std::optional<TeamSizes> find(int stage);
  void keep(int stage, const TeamSizes& teams);

  /// Seconds of an epoch on all ranks, of the stage's model of this role; none for another configuration's.
  std::optional<double> find_seconds(int stage, Role role);
  void keep_seconds(int stage, Role role, double seconds);

 private:
  void write(const std::string& text);

  std::string path_;    // empty: nowhere
  std::string origin_;  // a hash of the configuration and the number of ranks
  std::string text_;    // JSON: {"origin": "...", "1": {"dense": 3, "coarse": 2}, "seconds": {"2": {"dense": 0.7}}}
  Comm* world_;
};

/// Forgets what was measured: for a run that begins anew, or is done. The root acts.
void forget_teams(const RunConfig& run, const Comm& world);
/// The same where it was measured with another configuration, or on other ranks: for a run that was stopped before it
/// had trained anything.
void forget_teams_of_others(const Config& config, const Comm& world);

}  // namespace mrmf
