// One trainer's place in a tournament: its meetings with the others (docs/guide/tournaments.md).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/run/records.hpp"
#include "src/tournament/model_exchange.hpp"
#include "src/tournament/pairing_and_scores.hpp"
#include "src/training/run_context.hpp"

namespace mrmf {

/// The ranks of a world as teams of trainers, which follow one another.
struct TrainerTeams {
  std::vector<int> first, size;  ///< by trainer: its first rank, and how many it has
  int count() const { return static_cast<int>(size.size()); }
  int of(int rank) const;
};

/// ConfigError where the ranks make no such teams: fewer ranks than trainers, shares that do not fit.
TrainerTeams make_trainer_teams(const TournamentConfig& tournament, int ranks);

/// What all trainers know of the tournament.
struct TournamentSettings {
  TournamentConfig config;  ///< with rounds and steps that are above 0, unless trainers do not meet
  TrainerTeams teams;
  std::uint64_t seed = 1;
  /// On the world's first rank, after each round: what all trainers that play have to tell of it.
  std::function<void(const std::vector<TournamentRecord>&)> told{};
};

/// All ranks of the world make one at a time. Trainers gather for every round, those that have ended or dropped out,
/// too, until none plays any more: so the trainers' rounds need not be equally many.
class Tournament final : public Meetings {
 public:
  /// Collective over the world. Keeps references.
  Tournament(TournamentSettings settings, Comm& world, Comm& team);
  ~Tournament() override;

  std::optional<Index> next(const TrainState& state) const override;
  void meet(PhaseContext& context, TrainState& state, const std::function<void()>& save) override;
  void saved() override { saved_ = true; }
  void end() override { sit_out(Status::ended); }

  /// An error has ended the trainer, which sits by until no other plays; `why` goes into the records unless it is
  /// empty. Throws Stopped as end().
  void drop(const std::string& why);
  /// Whether a round is under way, which others wait in, or all stop: then a trainer that fails cannot drop out.
  bool in_round() const { return in_round_; }
  /// A signal has stopped the trainer, which is saved: tells the others, unless they know.
  void stop();

 private:
  enum class Status { plays = 1, stopped, ended, dropped };
  struct Attendance {
    std::vector<Status> status;  // by trainer
    bool stopped = false, saved = false;
    int round = -1;  // of those that play; -1: none does
    bool plays(int trainer) const { return status[static_cast<std::size_t>(trainer)] == Status::plays; }
  };
  struct Visit;

  Attendance arrive(Status status, int round = 0);
  Attendance gather(Status status, int round, const std::function<void()>& save);
  void sit_out(Status status, const std::string& why = "");
  void wait_for_scores();
  void play(Visit* visit, const Attendance& here);
  void play_pair(Visit* visit, const Attendance& here);
  void play_truncation(Visit* visit, const Attendance& here);
  Route route_between(const std::vector<int>& source_of, bool pairs);
  void take_moments(Visit& visit, Route& route, bool takes);
  void mutate(Visit& visit);
  void tell(const std::optional<TournamentRecord>& mine);

  TournamentSettings settings_;
  Comm world_;
  Comm& team_;
  int trainer_;
  Rendezvous rendezvous_;
  bool in_round_ = false;
  bool saving_ = false;      // all save, and gather once more
  bool saved_ = false;       // since the last meeting
  bool stop_known_ = false;  // to all trainers
};

}  // namespace mrmf
