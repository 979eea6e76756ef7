// A tournament: what each of its trainers trains, who meets whom and whose model survives (scores), how models travel
// between trainers (ExchangedTensors, Route), and one trainer's place in it (docs/guide/tournaments.md).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "src/config/config.hpp"
#include "src/method/train_run.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/training/model_and_optimizer.hpp"
#include "src/training/run_context.hpp"
#include "src/training/training_loop.hpp"

namespace mrmf {

// How models travel between trainers: parameters, running statistics, moments and the optimizer's step numbers, from
// each number to the same offset of the other's model.

/// The parts of a model that travel: all of it, or the layers that names stand for.
class ExchangedTensors {
 public:
  /// Names as BottomSettings::layers has them; none: the whole model. Keeps references. ConfigError for a name that
  /// stands for no layer.
  ExchangedTensors(ModelState& model_state, const std::vector<std::string>& names);

  std::vector<Span> model() const;    ///< parameters and running statistics
  std::vector<Span> moments() const;  ///< moments of those parameters
  /// The ages of the moments that this trainer has after it took `visitor`'s: those of a part of the network that
  /// travels whole.
  MomentAges ages(const MomentAges& own, const MomentAges& visitor) const;

 private:
  ModelState& model_state_;
  std::vector<ArenaSpan> params_, state_;
  bool bottom_ = false, top_ = false;  // whether all of its parameters travel
};

/// ConfigError, naming tournament.exchange, for a name that stands for no layer of the network.
void require_layers(const std::vector<std::string>& names, const Network& network);

std::size_t floats_of(const std::vector<Span>& spans);

/// Ranks between which models travel, of one or more trainers. Each of several senders gives what it has to all others,
/// piece by piece, so that one piece of each is all that is kept beside what arrives.
class Route {
 public:
  /// `roots`: the rank of each sender; `mine`: which of them this rank belongs to, or -1: it only receives.
  Route(Comm ranks, std::vector<int> roots, int mine)
      : ranks_(std::move(ranks)), roots_(std::move(roots)), mine_(mine) {}

  /// Calls `arrived` on every rank for each piece that another sender than its own gives, with its offset from the
  /// first float of the spans. A piece is read everywhere before any float at its offset is written. `gives`: which
  /// senders give anything. Collective.
  using Arrived = std::function<void(std::size_t first, ConstSpan values)>;
  void send(Backend& backend, const std::vector<Span>& from, const std::vector<bool>& gives, const Arrived& arrived);
  /// Numbers of every sender, on every rank. Collective.
  std::vector<std::vector<std::int64_t>> tell(const std::vector<std::int64_t>& mine);

  std::size_t senders() const { return roots_.size(); }
  int mine() const { return mine_; }
  Comm& ranks() { return ranks_; }

 private:
  Comm ranks_;
  std::vector<int> roots_;
  int mine_;
};

/// Writes values behind the first float of the spans.
void write_to(Backend& backend, const std::vector<Span>& spans, std::size_t first, ConstSpan values);
/// Exchanges the spans' contents with `values`, which are as many.
void swap_with(Backend& backend, const std::vector<Span>& spans, std::vector<float>& values);

// Who meets whom, and whose model goes where: pure functions, the same on every rank.

/// The partner of each trainer in a round (from 0), or its own number: neighbours in a random order of all of them,
/// whose last one is alone where they are odd. A function of the seed and the round, so the round is all that a
/// checkpoint has to say.
std::vector<int> partners(int trainers, std::uint64_t seed, int round);

/// A model's score, lower is better: a mean over groups of rows, and what each of them said.
struct Score {
  double value = 0;
  std::vector<double> groups{};
  /// The mean's standard error; 0 of fewer than two groups.
  double error() const;
};

/// Whether the visitor takes the place of a trainer's own model, both scored on the same rows.
struct Decision {
  double error = 0;  ///< standard error of the difference, group by group
  bool replaced = false;
};
/// A score that is not finite is worse than any that is. Ties, and differences of no more than their standard error,
/// keep the trainer's own.
Decision decide(const Score& own, const Score& visitor);

/// What truncation compares: scores of different trainers' models, each on rows of its own.
struct RankedScore {
  double value = 0, error = 0;
  bool plays = true;
};

/// Where each trainer's model comes from: itself, or one of the `best` few, which feed the rest in turn. Scores that
/// are not finite come last, and equal ones in the trainers' order. A trainer whose score is within the standard error
/// of the difference of its source's keeps its own.
std::vector<int> truncation_sources(const std::vector<RankedScore>& scores, int best);

/// 0.8 or 1.2, for what a trainer changes after it took another's model. `what` tells the changes of one time apart.
double mutation(std::uint64_t seed, int round, int trainer, int what);

// The score of a phase's model on the rows that its trainer holds out, with what is known of its uncertainty.

/// The held-out rows in groups of equal size, up to one row per shard: at most 32, as few as a metric needs. The same
/// groups on any number of ranks where data.shards is the same.
EpochOrder score_groups(const Split& held_out, Index rows_at_once, bool by_metric);

/// Scores models of one phase. What PhaseContext::meeting holds.
class GroupScores final : public MeetingState {
 public:
  /// For the rows that `context`'s data hold out. Collective.
  explicit GroupScores(PhaseContext& context);
  /// That of the phase, made if it is not there.
  static GroupScores& of(PhaseContext& context);

  /// The model as it is, by what training.monitor watches: the loss, or the metric, with its sign turned where more of
  /// it is better. Not finite where the loss is not, or where no group has a score. Collective; the same on every rank.
  Score score(PhaseContext& context);
  /// A score as people know it: the metric has its own sign again.
  double shown(double value) const { return by_metric_ ? rising(*by_metric_, -value) : value; }
  /// Rows, or windows of them, that a score takes, over all ranks.
  Index rows(const PhaseContext& context) const;

 private:
  void read_ahead(PhaseContext& context);

  std::optional<Metric> by_metric_;  // none: by the loss
  const Split* split_;
  EpochOrder order_;
  std::optional<Batches> batches_;  // none: whole samples are scored, window by window
};

// One trainer's place in a tournament: its meetings with the others (docs/guide/tournaments.md).

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
    int round = -1;  // the round of those that play; -1: none does
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

// What each trainer of a tournament trains, and what is checked of all of them before any begins.

/// The run that one trainer of `whole` is: its part of the rows, its seed, its folder, and what tournament.settings
/// give it. Training it alone gives the same bits as in the tournament, until the first meeting. ConfigError for
/// settings that are none.
Config trainer_config(const Config& whole, int trainer);

/// Its share of its node's cores and memory, beside the other trainers. Collective over the world.
void share_node(Config& config, const Comm& team, Comm& world);

/// Rounds and steps as the trainers' last phases have room for them. ConfigError where some trainer has fewer steps
/// than the rounds need, or where models cannot travel between the trainers: other layers, other optimizers. Collective
/// over the world, of which this rank's trainer will train `run`.
TournamentConfig settle_meetings(const TournamentConfig& asked, const ResolvedRun& run, const TrainerTeams& teams,
                                 Comm& team, Comm& world);

// What a tournament will take of a rank, before anything runs: for `mrmf plan` and `mrmf inspect`.

struct TournamentOutlook {
  int trainers = 1;
  bool meets = false;
  Index trained = 0, held_out = 0;  ///< rows of the first trainer; 0: the number of samples is not known
  Index visitor_bytes = 0;          ///< another trainer's model, kept beside a rank's own while both are compared
  Index sent_bytes = 0;             ///< what a rank sends at a meeting, where its model is taken
  double meeting_cost = 0;          ///< arithmetic of a meeting, in epochs of a trainer
};

/// None where there is no tournament. `samples`: training rows of all trainers together, where they are known.
std::optional<TournamentOutlook> tournament_outlook(const Config& config, const Plan& plan, const Shape& sample,
                                                    std::optional<Index> samples);

std::string to_text(const TournamentOutlook& outlook);  ///< a line

// From which round all trainers of a tournament continue.

/// The rounds that a trainer can continue from: those of its last checkpoint and of the one before.
struct SavedRounds {
  std::optional<int> last, before;
  bool done = false;             ///< the last one is of the end of its training, so that it has no later round
  std::optional<int> dropped{};  ///< it dropped out in this round, counted from 1: it needs none that is not before
  bool has(int round) const;
};

/// Whether there is a file or folder that can be seen.
bool file_exists(const std::string& path);

/// What the checkpoints in a trainer's folder say; `phases` is the number of phases of its plan. On one rank. DataError
/// for a damaged file.
SavedRounds saved_rounds(const std::string& folder, int phases);

/// The latest round that all trainers have; 0, where they began, if there is no other.
int common_round(const std::vector<SavedRounds>& trainers);

/// Makes the trainer's checkpoint of this round its last one, or removes its checkpoints where it has none of round 0.
/// On one rank. A kill meanwhile does no harm: the same is done again.
void return_to_round(const std::string& folder, const SavedRounds& saved, int round);

/// Which trainer this rank is of.
struct SettledTrainer {
  std::string folder;
  int phases = 1;  ///< phases of its plan
  Comm& team;
};

/// All of that for a tournament that continues. `dropped`: by trainer, the round in which it dropped out, or 0.
/// Collective over the world.
int settle_round(const SettledTrainer& mine, const TrainerTeams& teams, const std::vector<int>& dropped, Comm& world);

}  // namespace mrmf
