// Where and how a run computes, and tournaments: settings of [run] and [tournament], and their keys.
#pragma once

#include <string>
#include <vector>

#include "kernels/operations.hpp"
#include "kernels/tensor.hpp"
#include "src/config/key_rules.hpp"

namespace mrmf {

/// When a run under way is saved, besides at the end of its phases and on a signal. 0: not by this count.
struct CheckpointConfig {
  int epochs = 0;       ///< every this many epochs
  double minutes = 10;  ///< at the first step after this many minutes
  bool operator==(const CheckpointConfig&) const = default;
};

enum class Device { automatic, cpu, cuda };
template <>
inline std::vector<std::string> words_of<Device>() {
  return {"auto", "cpu", "cuda"};
}

enum class CpuLibrary { onednn, reference };
template <>
inline std::vector<std::string> words_of<CpuLibrary>() {
  return {"onednn", "reference"};
}

template <>
inline std::vector<std::string> words_of<Precision>() {
  return {"fp32", "tf32", "bf16"};
}

struct RunConfig {
  std::string folder = "runs/mrmf";
  Device device = Device::automatic;
  CpuLibrary backend = CpuLibrary::onednn;
  int ranks = 0;    ///< the run's number of ranks; 0: as many as are started
  int threads = 0;  ///< per rank; 0: cores of the node / ranks on it
  /// Blocks of a sample along its axes, each on a rank of its own: of every resolution, or one for each of them.
  std::vector<Extent> grid{{1, 1, 1}};
  CheckpointConfig checkpoint;
  double check_ranks = 1;      ///< minutes between two comparisons of the ranks' parameters; 0: not by time
  bool deterministic = false;  ///< the same bits in every run: no sum depends on the order in which ranks add
  bool tensorboard = false;    ///< TensorBoard's event file beside epochs.jsonl
  double timeout = 300;        ///< seconds that a sum over ranks may take
  std::string plans;           ///< file of a GPU's plans, or of the CPU's kernels; empty: in the user's cache folder
  Precision precision = Precision::tf32;
  // GPU only:
  bool graphs = true;            ///< record a training step once and replay it
  bool resident = true;          ///< keep the samples in device memory where they fit
  bool ranks_share_gpu = false;  ///< let several ranks compute on one GPU: for tests
  bool operator==(const RunConfig&) const = default;
};

/// run.grid, which has a reading of its own (layer_keys.cpp).
void add_grid_key(KeyList<RunConfig>& keys);

inline void list_keys(KeyList<CheckpointConfig>& keys) {
  keys.add("epochs", &CheckpointConfig::epochs, at_least(0),
           "save the run under way every so many epochs; 0 for never by epochs");
  keys.add("minutes", &CheckpointConfig::minutes, at_least(0),
           "save the run under way every so many minutes; 0 for never by time");
}

inline void list_keys(KeyList<RunConfig>& keys) {
  using R = RunConfig;
  keys.add("folder", &R::folder, {}, "where the run's files go");
  keys.add("device", &R::device, one_of(words_of<Device>()), "what to compute on");
  keys.add("backend", &R::backend, one_of(words_of<CpuLibrary>()), "library for the CPU");
  keys.add("ranks", &R::ranks, at_least(0),
           "the number of ranks that this run is meant for, another one is refused; 0 for any");
  keys.add("threads", &R::threads, at_least(0),
           "per rank; 0 for OMP_NUM_THREADS, or else the cores this rank may use over the ranks that share them");
  add_grid_key(keys);
  keys.add_table("checkpoint.", &R::checkpoint, list_keys);
  keys.add("check_ranks", &R::check_ranks, at_least(0),
           "compare the parameters of the ranks every so many minutes; 0 for only when a phase of the plan begins and "
           "when the run is saved");
  keys.add("deterministic", &R::deterministic, {},
           "the same bits in every run, somewhat slower: on a GPU; on the CPU in whatever order ranks add, and with "
           "data.shards set on any number of ranks and threads");
  keys.add("tensorboard", &R::tensorboard, {}, "also write the epochs as a file for TensorBoard");
  keys.add(
      "precision", &R::precision, one_of(words_of<Precision>()),
      "GPU: of activations and products; CPU: with bf16, factors are rounded where the processor multiplies in bf16; "
      "parameters and sums are always float32");
  keys.add("graphs", &R::graphs, {}, "GPU: capture a training step once as a CUDA graph and replay it");
  keys.add("resident", &R::resident, {},
           "GPU: keep the samples in its memory where they take less than 40 % of what is free");
  keys.add("ranks_share_gpu", &R::ranks_share_gpu, {},
           "GPU: let several ranks compute on one GPU, for tests; it is slow");
  keys.add("timeout", &R::timeout, above(0),
           "seconds that a rank waits for the others in training before it ends the run; while a rank is stopped "
           "(suspended), they do not count");
  keys.add("plans", &R::plans, {},
           "file that keeps the fastest ways of convolutions; in the user's cache folder mrmf/plans.json (GPU) or "
           "mrmf/kernels.txt (CPU) unless set");
}

// Settings of a tournament: several trainers, each with a team of ranks and a part of the training rows, that play
// against each other (docs/guide/tournaments.md).

/// pairwise: each trainer meets one other, and keeps the better of the two models. truncation: the models of the best
/// few go to all others. none: trainers do not meet.
enum class Selection { pairwise, truncation, none };
template <>
inline std::vector<std::string> words_of<Selection>() {
  return {"pairwise", "truncation", "none"};
}
std::string to_string(Selection selection);

/// What a trainer that takes another's model changes at random.
enum class Mutated { learning_rate, weight_decay, dropout };
template <>
inline std::vector<std::string> words_of<Mutated>() {
  return {"learning_rate", "weight_decay", "dropout"};
}

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

inline constexpr double kMostTrainers = 1 << 16;

/// tournament.metric and tournament.settings, which have readings of their own (training_keys.cpp).
void add_deciding_metric_key(KeyList<TournamentConfig>& keys);
void add_settings_key(KeyList<TournamentConfig>& keys);

inline void list_keys(KeyList<TournamentConfig>& keys) {
  using T = TournamentConfig;
  keys.add(
      "trainers", &T::trainers, within(1, kMostTrainers),
      "teams of ranks, each of which trains a model of its own on its part of the training rows; 1 for no tournament");
  keys.add("share", &T::share, at_least(1),
           "shares of the ranks, one for each trainer, such as [2, 1, 1]; equal unless set");
  keys.add("rounds", &T::rounds, within(0, kMostSteps),
           "times that the trainers meet; 0 for as often as their epochs have room for");
  keys.add(
      "steps", &T::steps, within(0, kMostSteps),
      "steps that each trains from one meeting to the next, in the plan's last phase; 0 for an epoch of the trainer "
      "with the most steps");
  keys.add(
      "selection", &T::selection, one_of(words_of<Selection>()),
      "pairwise: two trainers meet and each keeps the better model; truncation: the models of the `best` few go to all "
      "others; none: trainers do not meet, and the best one is the run's in the end");
  keys.add("best", &T::best, within(1, kMostTrainers), "truncation: so many trainers feed the others");
  keys.add(
      "exchange", &T::exchange, {},
      "names of the layers that travel, \"conv*\" for all that begin with conv; the others stay with their trainer; "
      "the whole model unless set");
  add_deciding_metric_key(keys);
  keys.add(
      "held_out", &T::held_out, above_to(0, 0.9),
      "share of a trainer's training rows that it does not train on: models are scored on them where trainers meet");
  keys.add(
      "rows", &T::rows, one_of({"part", "all"}),
      "training rows of a trainer: one of as many equal parts as there are trainers, or all, but for what is held out");
  keys.add("mutate", &T::mutate, one_of(words_of<Mutated>()),
           "what a trainer changes that takes another's model: each of these by 0.8 or 1.2, at random");
  keys.add("on_error", &T::on_error, one_of({"end", "drop"}),
           "where an error ends a trainer: the run ends too, or the others play on without it");
  add_settings_key(keys);
}

}  // namespace mrmf
