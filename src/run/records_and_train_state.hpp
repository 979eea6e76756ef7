// The records of a run, and where a phase stands with the records that it has so far (TrainState, PhaseHistory).
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/plan/learning_rate_and_stop_rule.hpp"
#include "src/plan/plan.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {

// Records that a run leaves behind, as plain data: the lines of epochs.jsonl, stages.jsonl and tournament.jsonl, and
// result.json.

/// A whole number from a JSON value. std::out_of_range for any other value, or for one that T cannot hold: the
/// library's own conversion of it would be undefined.
template <std::integral T, class Json>
T whole_number(const Json& json) {
  if (json.is_number_unsigned() && std::in_range<T>(json.template get<std::uint64_t>()))
    return static_cast<T>(json.template get<std::uint64_t>());
  if (json.is_number_integer() && !json.is_number_unsigned() && std::in_range<T>(json.template get<std::int64_t>()))
    return static_cast<T>(json.template get<std::int64_t>());
  throw std::out_of_range("a number is not whole, or too large");
}

/// A loss or a metric where nothing can be scored: no label counts, or a metric has no value for these labels (R^2 of
/// labels that are all the same). NaN, so that it compares with nothing; null in JSON, and "-" for people.
constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();
std::string score_text(double score, int digits = 5);  ///< "0.01234", "1.23450e+09", or "-"

/// Seconds, summarised over the ranks of a team.
struct RankSeconds {
  double mean = 0, least = 0, most = 0;
  RankSeconds& operator+=(const RankSeconds& other);
  bool operator==(const RankSeconds&) const = default;
};

/// Where an epoch's seconds went, as in the paper's Tables 4 and 8.
struct TimeShares {
  RankSeconds io, compute, communication;
  double hidden = 0;  ///< mean seconds of sums over the ranks that ran beside computation; not in the three above
  double averaging =
      0;  ///< mean seconds that went to averaging samples: part of io, or beside it where they are streamed
  TimeShares& operator+=(const TimeShares& other);
  bool operator==(const TimeShares&) const = default;
};

/// How far the momenta that workers have of their own are apart in a tensor, at an epoch's end: means over some
/// thousand of its values.
struct MomentaSpread {
  std::string tensor;      ///< "conv1/weight"
  double mean_square = 0;  ///< squares of the workers' mean
  double variance = 0;     ///< the variance over the workers
  bool operator==(const MomentaSpread&) const = default;
};

/// A term of a training loss, with its weight.
struct TermLoss {
  std::string term;
  double loss = kNoScore;  ///< mean over the rows of the steps in whose turn it was; kNoScore: there were none
  bool operator==(const TermLoss& other) const {
    return term == other.term && (loss == other.loss || (std::isnan(loss) && std::isnan(other.loss)));
  }
};

/// One epoch: a line of epochs.jsonl, with these names as keys. There, a loss that is not finite is null. The
/// validation loss may be kNoScore.
struct EpochRecord {
  int stage = 1;  ///< 1-based, as in the plan
  Role role = Role::baseline;
  Extent resolution{1, 1, 1};
  Extent grid{1, 1, 1};                        ///< blocks of every sample, each on a rank of its own
  int axes = 1;                                ///< axes of the data
  int epoch = 1;                               ///< 1-based, within its phase
  Index samples = 0;                           ///< training samples seen, over all ranks
  double train_loss = 0, validation_loss = 0;  ///< means over the samples with a label that counts
  double seconds = 0;                          ///< seconds of the epoch, including validation
  TimeShares time_shares{};
  double learning_rate = 0;
  int batch = 0;  ///< per rank, or per sample group
  int ranks = 1;
  double total_seconds = 0;  ///< from the run's start to the end of this epoch
  /// Billions of operations: the forward of convolutions and dense layers for every sample, three times for training
  /// ones.
  double gflop = 0;
  double statistics_gflop = 0;          ///< those for the recalibration of batch norms (precise_batch_norm)
  std::optional<MetricValue> metric{};  ///< metric of the validation data, where one is measured
  double sent_bytes = 0;  ///< per step, sent by a rank for sums of gradients or directions and of momenta: the mean
  std::vector<MomentaSpread> momenta{};  ///< where workers have their own
  std::vector<TermLoss> terms{};  ///< for a network of several parts; train_loss is the mean of what steps had of them
  bool operator==(const EpochRecord&) const = default;
};

/// Which epoch a model is of; stands in its file.
struct ModelNote {
  int epoch = 0, epochs = 0;  ///< 1-based, of so many epochs of its phase
  double validation_loss = 0;
  std::optional<MetricValue> metric{};
  bool best = false;  ///< the best of all these epochs, by training.monitor
  bool operator==(const ModelNote&) const = default;
};
std::string to_text(const ModelNote& note);  ///< "epoch 7 of 10, validation 0.01234"

/// One phase: a line of stages.jsonl.
struct PhaseRecord {
  int stage = 1;
  Role role = Role::baseline;
  Extent resolution{1, 1, 1};
  int axes = 1;  ///< axes of the data
  int epochs = 0;
  double seconds = 0;
  TimeShares time_shares{};  ///< the epochs' sums
  double gflop = 0;
  EpochRecord last{};    ///< its losses are the phase's
  std::string reason{};  ///< why it ended: epochs | plateau | target | early_stopping | slope
  int best_epoch = 0;    ///< whose model was kept beside the last one; 0: none was
  double waited = 0;     ///< seconds that its team, trained beside another, then waited for the other
  /// In records of an earlier version: it was trained beside another team, which joined this one when ready. Not
  /// written.
  bool joined = false;
  void add(const EpochRecord& epoch);
  bool operator==(const PhaseRecord&) const = default;
};

/// result.json: written when a run is done, never before.
struct RunResult {
  MethodName method = MethodName::baseline;
  TopRule top = TopRule::dense;
  bool automatic = false;  ///< method.name = "auto": the program chose the method
  std::vector<Extent> resolutions;
  int axes = 1;  ///< axes of the data
  std::uint64_t seed = 0;
  std::string model;                ///< the preset, or "custom"
  std::string data;                 ///< files and data sets, in one line
  std::vector<PhaseRecord> phases;  ///< seconds and epochs per phase
  double total_seconds = 0;
  double validation_loss = 0;  ///< final
  std::optional<double> target;
  std::optional<MetricValue> metric;  ///< final
  std::optional<MetricTarget> metric_target;
  bool target_reached = false;    ///< the target of the loss, or that of the metric
  std::optional<ModelNote> best;  ///< the best model of the last phase
  /// What an epoch costs at the last resolution of the network as it is configured, where another one ends the run
  /// (method.top = "stem").
  std::optional<double> full_gflop{};
  int ranks = 1;
  Machine machine;
  Versions versions;
  bool operator==(const RunResult&) const = default;
};

/// JSON on one line, without a line break at the end.
std::string to_json(const EpochRecord& record);
std::string to_json(const PhaseRecord& record);
std::string to_json(const ModelNote& note);
/// JSON over several lines.
std::string to_json(const RunResult& result);
/// `origin` names the text in the DataError when it is not such a record ("runs/a/epochs.jsonl:12").
EpochRecord epoch_from_json(const std::string& text, const std::string& origin);
PhaseRecord phase_from_json(const std::string& text, const std::string& origin);
ModelNote note_from_json(const std::string& text, const std::string& origin);
RunResult result_from_json(const std::string& text, const std::string& origin);

// What a tournament leaves in its run's folder: tournament.jsonl, a line for every trainer and round, and one for each
// in the end. And where its trainers' own run folders are.

/// One trainer at one meeting, or at the end.
struct TournamentRecord {
  int round = 0;  ///< from 1; 0: the end
  int trainer = 0;
  std::string status = "plays";  ///< plays | ended | dropped
  Index steps = 0;               ///< steps of the plan's last phase until then
  int partner = -1;              ///< whose model was scored beside its own; -1: nobody's
  double own = 0;                ///< score of its own model on its own held-out rows; at the end on the validation data
  double other = 0;              ///< score of the partner's there; of truncation, on the partner's rows
  double error = 0;              ///< standard error of their difference
  bool replaced = false;         ///< its model is the partner's from here on
  int parent = 0;                ///< whose model it trains from here on, as numbered before the meeting
  double learning_rate = 0, weight_decay = 0, dropout = 1;  ///< from here on; of dropout, so many times the layers' own
  bool best = false;                                        ///< at the end: the run's model
  std::string note{};                                       ///< why it was dropped
  bool operator==(const TournamentRecord&) const = default;
};

/// JSON on one line. A score that is not finite is null.
std::string to_json(const TournamentRecord& record);
/// DataError, naming `origin`, for a text that is no such record.
TournamentRecord tournament_record_from_json(const std::string& text, const std::string& origin);

std::string tournament_path(const std::string& folder);
std::string trainer_folder(const std::string& folder, int trainer);

/// The runs of its trainers, those that are done, in place of the folder of a tournament; all others stay.
std::vector<std::string> with_trainers(const std::vector<std::string>& folders);

/// The records of a run's folder; empty where it is no tournament's. DataError for a damaged file.
std::vector<TournamentRecord> read_tournament(const std::string& folder);

/// "round 3, trainer 2: takes the model of trainer 0, which has 0.0123 against 0.0150 (standard error 0.0004)".
std::string to_text(const TournamentRecord& record);

// State of a phase's training: everything but the numbers in its model's arenas.

/// Seconds of one epoch by what they went to, as in the paper's Tables 4 and 8. They add up to less than the epoch's
/// seconds where a phase begins: models are built and fused there.
struct EpochTime {
  double io = 0, compute = 0, communication = 0, hidden = 0;
};

/// A phase's part of the records.
struct PhaseHistory {
  PhaseRecord record;               ///< its reason is empty until the phase ends
  std::vector<EpochRecord> epochs;  ///< the finished ones
};

/// A trainer's place in a tournament; that of a run without one is as it begins.
struct TournamentState {
  int rounds = 0;                        ///< meetings that are over
  double weight_decay = 1, dropout = 1;  ///< so many times the phase's own; the rate's factor is LearningRate's
  Index scored = 0;                      ///< samples that models were scored on in the epoch under way, over all ranks
};

struct TrainState {
  StopRule stop;  ///< knows the number of epochs done
  LearningRate rate;
  BestEpoch best;  ///< the epoch whose model is kept beside the last one, where the phase keeps it
  PhaseHistory history;
  TournamentState tournament;
  Index step = 0;                 ///< optimizer steps done in the epoch under way
  double loss = 0;                ///< sum over the rows of those steps
  std::vector<double> terms;      ///< the same of each term of a network of several parts
  std::vector<double> term_rows;  ///< rows of the steps in whose turn it was
  Index samples = 0;              ///< those rows over all ranks, each counted where it was trained
  double sent = 0;                ///< bytes that this team's ranks sent in those steps, their mean
  EpochTime time;                 ///< time of the epoch under way
  double epoch_start = 0;         ///< when that epoch began, in seconds of the run
  double total_seconds = 0;       ///< total seconds of the run, when this state was saved

  explicit TrainState(const Phase& phase);
  bool finished() const { return !history.record.reason.empty(); }
};

/// Whether this epoch (1-based) is the best of all by `monitor`. The one whose model was kept is not where an earlier
/// version began the run and kept no model of a better one.
bool is_best(const std::vector<EpochRecord>& epochs, int epoch, Monitor monitor);

/// The number of updates that the moments of a model's bottom and top have seen. Training increases both alike. After a
/// fusion with method.moments = "carry" they differ, and so does Adam's bias correction (docs/numerics.md).
struct MomentAges {
  std::uint64_t bottom = 0, top = 0;
  bool operator==(const MomentAges&) const = default;
};

/// "in stage 1 (coarse, resolution [4]), epoch 3, after 16 steps"; "after stage ..." once it has finished.
std::string position_text(const Phase& phase, const TrainState& state);

/// JSON. Numbers come back with the same bits. DataError, naming `origin`, for a text that is not ours.
std::string to_json(const TrainState& state);
TrainState train_state_from_json(const std::string& text, const Phase& phase, const std::string& origin);
std::string to_json(const PhaseHistory& history);
PhaseHistory phase_history_from_json(const std::string& text, const std::string& origin);

}  // namespace mrmf
