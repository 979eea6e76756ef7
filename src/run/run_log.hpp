// Output of a run: its messages to people and the records in its folder (run_log_and_tensorboard.cpp), and the same for
// TensorBoard (run_log_and_tensorboard.cpp).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records_and_train_state.hpp"
#include "src/run/run_cost.hpp"

namespace mrmf {

// TensorBoard's event files: the epochs of a run as scalars. TFRecord frames around protobuf messages (Event, Summary),
// of which only the few fields that scalars need are written, by hand.

/// The file's name in a run folder. TensorBoard takes every file with "tfevents" in its name.
inline constexpr const char* kEventFile = "events.out.tfevents.mrmf";

/// What the file begins with: the version of its form.
std::string event_file_start();

/// One epoch: losses, metric and learning rate, and its seconds under a name for its phase. `step` counts the run's
/// epochs from 1. The time of the event is that of the record: seconds since the run began, so the same records make
/// the same bytes.
std::string epoch_event(const EpochRecord& record, Index step);

/// The whole file for these phases, in their order.
std::string event_file(const std::vector<PhaseHistory>& phases);

struct RunLogSettings {
  std::string folder;
  std::ostream* out = nullptr;  ///< for lines to people; must outlive the log
  bool terminal = false;        ///< `out` is a terminal: show a live progress line
  bool tensorboard = false;     ///< also write the epochs as an event file
  TimeEstimate estimate{};      ///< estimate of the run's phases, for the time left; by default nothing is said of it
  bool continues = false;       ///< log.txt is appended to, whatever records there are
};

/// An epoch's progress after each of its steps.
struct Progress {
  const Phase* training = nullptr;
  int epoch = 0;  ///< 0-based
  Index step = 0, steps = 0;
  double loss = 0;  ///< loss of this step's batch
  Index rows = 0;   ///< rows of this step, over all ranks
  int ranks = 1;    ///< that train
};

/// The log and the records of a run. Movable. The root rank opens one; the others hold an empty one, whose calls do
/// nothing.
class RunLog {
 public:
  RunLog();
  /// An empty log, for a rank that is not the root but may be the root of a team.
  explicit RunLog(const RunLogSettings& settings);
  /// Writes config.toml (unless its text is empty) and plan.json into the folder, a RunFolder's. Replaces earlier
  /// records there by those of `earlier`. If that has any, the run continues and its log.txt is appended to. DataError
  /// when the folder cannot be written.
  RunLog(const RunLogSettings& settings, const std::string& config_toml, const std::string& plan_json,
         const std::vector<PhaseHistory>& earlier = {});
  RunLog(RunLog&&) noexcept;
  RunLog& operator=(RunLog&&) noexcept;
  ~RunLog();

  /// Prints a line for people and keeps it in log.txt.
  void line(const std::string& text);
  void progress(const Progress& progress);
  /// `ends`: the phase ends with this epoch.
  void epoch(const EpochRecord& record, bool ends = false);
  void phase(const PhaseRecord& record);
  /// A log beside the run's, for a team whose root is this rank. It prints lines too, but keeps its records in
  /// run.folder/team until the run's log has taken them over. Empty if this log was made without settings.
  RunLog of_team(bool continued) const;
  /// What line() has kept in log.txt so far, to be handed to take_over().
  std::string log_text() const;

  /// Takes over what other ranks have recorded. Puts a team's trained phases among its own in the plan's
  /// order, and appends that team's lines to log.txt. Removes the team's folder.
  void take_over(const std::vector<PhaseHistory>& phases, const std::string& log);

  /// Prints the final table and writes result.json, which appears whole. DataError when a record cannot be written.
  void finish(const RunResult& result);

 private:
  struct State;
  std::optional<RunLogSettings> settings_;  // none: silent
  std::unique_ptr<State> state_;
};

/// A result from the configuration and the phases; versions, machine and ranks are the caller's.
RunResult make_result(const Config& config, const std::vector<PhaseRecord>& phases, double total_seconds);

/// Whether a person is looking: false in files, pipes and under mpirun.
bool stdout_is_terminal();

// The texts alone, wherever they go.
std::string epoch_line(const EpochRecord& record);
std::string progress_line(const Progress& progress, double samples_per_second, double seconds_left,
                          const std::optional<TimeLeft>& left);
std::string result_table(const RunResult& result);
std::string duration_text(double seconds);  ///< "45 s", "3 min 05 s", "2 h 07 min"

}  // namespace mrmf
