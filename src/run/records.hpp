// Records that a run leaves behind, as plain data: the lines of epochs.jsonl, stages.jsonl and tournament.jsonl, and
// result.json.
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
#include "src/plan/plan.hpp"
#include "src/system/host_info.hpp"

namespace mrmf {

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
  double variance = 0;     ///< of the workers
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
  std::vector<TermLoss> terms{};  ///< of a network of several parts; train_loss is the mean of what steps had of them
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
  Index steps = 0;               ///< of the plan's last phase until then
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

}  // namespace mrmf
