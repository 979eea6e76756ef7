// Settings of a tournament: several trainers, each with a team of ranks and a part of the training rows, that play
// against each other (docs/guide/tournaments.md).
#pragma once

#include <string>
#include <vector>

namespace mrmf {

template <class E>
std::vector<std::string> words_of();

/// pairwise: each trainer meets one other, and keeps the better of the two models. truncation: the models of the best
/// few go to all others. none: trainers do not meet.
enum class Selection { pairwise, truncation, none };
template <>
std::vector<std::string> words_of<Selection>();
std::string to_string(Selection selection);

/// What a trainer that takes another's model changes at random.
enum class Mutated { learning_rate, weight_decay, dropout };
template <>
std::vector<std::string> words_of<Mutated>();

/// When an error ends one trainer: the run ends, too, or the others play on.
enum class TrainerError { end, drop };

/// Which training rows a trainer has: one of as many equal parts as there are trainers, or all of them.
enum class TrainerRows { part, all };

struct TournamentConfig {
  int trainers = 1;          ///< 1: no tournament
  std::vector<int> share{};  ///< shares of the ranks, by trainer; empty: equal
  int rounds = 0;            ///< meetings; 0: as many as the epochs have room for
  int steps = 0;             ///< steps of the plan's last phase from one meeting to the next; 0: of an epoch
  Selection selection = Selection::pairwise;
  int best = 1;          ///< truncation: so many trainers feed the others
  std::string metric{};  ///< "loss", or a metric's name, which is then training.metric, too; empty: training.monitor's
  std::vector<std::string> exchange{};  ///< layers that travel, "conv*" for all that begin so; empty: the whole model
  double held_out = 0.1;                ///< share of a trainer's training rows that scores models at meetings
  TrainerRows rows = TrainerRows::part;
  std::vector<Mutated> mutate{};
  TrainerError on_error = TrainerError::end;
  std::vector<std::vector<std::string>> settings{};  ///< by trainer, as --set takes them; empty: all are alike
  bool operator==(const TournamentConfig&) const = default;
};

}  // namespace mrmf
