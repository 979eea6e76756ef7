// What a run tells people, and the records that it leaves in its folder (src/run/run_folder.hpp lists them).
#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "src/config/config.hpp"
#include "src/plan/plan.hpp"
#include "src/run/records.hpp"
#include "src/run/train_state.hpp"

namespace mrmf {

struct ReportSettings {
  std::string folder;
  std::ostream* out = nullptr;  ///< where lines for people go; outlives the report
  bool terminal = false;        ///< `out` is a terminal: show a live progress line
};

/// Where an epoch stands, after each of its steps.
struct Progress {
  const Phase* training = nullptr;
  int epoch = 0;  ///< 0-based
  Index step = 0, steps = 0;
  double loss = 0;  ///< of this step's batch
  Index rows = 0;   ///< of this step, over all ranks
};

/// Value type, movable. The root rank opens one; the others hold an empty one, whose calls do nothing.
class RunReport {
 public:
  RunReport();
  /// Empty, for a rank that is not the root but may be the root of a team.
  explicit RunReport(const ReportSettings& settings);
  /// Writes config.toml (unless its text is empty) and plan.json into the folder, a RunFolder's. Earlier records in it
  /// are replaced: by those of `earlier` where a run goes on, whose log.txt is then added to. DataError: the folder
  /// cannot be written.
  RunReport(const ReportSettings& settings, const std::string& config_toml, const std::string& plan_json,
            const std::vector<PhaseHistory>& earlier = {});
  RunReport(RunReport&&) noexcept;
  RunReport& operator=(RunReport&&) noexcept;
  ~RunReport();

  /// A line for people, printed and kept in log.txt.
  void log(const std::string& line);
  void progress(const Progress& progress);
  void epoch(const EpochRecord& record);
  void phase(const PhaseRecord& record);
  /// The report of a team of which this rank is the root, beside the run's: it prints lines too, but keeps its records
  /// in a folder of its own, run.folder/team, until the run's report has taken them over. Empty where this one came to
  /// be without settings.
  RunReport of_team(bool continued) const;
  /// What log() has kept in log.txt so far, to be handed to add_log().
  std::string log_text() const;

  /// What other ranks have told: phases that a team has trained, put among this report's own in the plan's order, and
  /// that team's lines, added to log.txt. The team's folder is removed.
  void take_over(const std::vector<PhaseHistory>& phases, const std::string& log);

  /// Prints the final table and writes result.json, which appears whole. DataError: a record cannot be written.
  void finish(const RunResult& result);

 private:
  struct State;
  std::optional<ReportSettings> settings_;  // none: silent
  std::unique_ptr<State> state_;
};

/// A result with what the configuration and the stages say; versions, machine and ranks are the caller's.
RunResult make_result(const Config& config, const std::vector<PhaseRecord>& phases, double total_seconds);

/// A person is looking: false in files, pipes and under mpirun.
bool stdout_is_terminal();

// The texts, apart from where they go.
std::string epoch_line(const EpochRecord& record);
std::string progress_line(const Progress& progress, double samples_per_second, double seconds_left);
std::string result_table(const RunResult& result);
std::string duration_text(double seconds);  ///< "45 s", "3 min 05 s", "2 h 07 min"

}  // namespace mrmf
