// What a tournament leaves in its run's folder: tournament.jsonl, a line for every trainer and round, and one for each
// in the end. And where its trainers' own run folders are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/tensor.hpp"

namespace mrmf {

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
