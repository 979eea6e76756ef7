// Times that `mrmf bench tables` measured on a machine, in a file, and what follows from them for other sizes;
// and the fits that it follows by.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/rank_planner/cost_model.hpp"
#include "src/system/host.hpp"

namespace mrmf {

// Fits of times by sums of terms that grow with the work, such as latency + bytes / bandwidth.

/// A measured time and what each term counts of it.
struct TimedWork {
  std::vector<double> terms;
  double seconds = 0;
};

/// Coefficients of the terms, none below zero, for the least sum of squared relative errors. Empty without
/// measurements. requires: at most eight terms, the same number everywhere; seconds above zero.
std::vector<double> fit_terms(const std::vector<TimedWork>& measured);

/// One operation at one size, measured in a training step. Amounts are those of all rows.
struct OperationTime {
  std::string key, shape;  ///< shape: of the input, for people
  double rows = 1;
  double work = 0, flop = 0, bytes = 0;  ///< Operation::work() etc.
  double forward = 0;
  std::optional<double> data{}, weights{};  ///< backward; none: not measured
};

struct UpdateTime {
  std::string optimizer;
  double parameters = 0, seconds = 0;
};

/// seconds = latency + amount * per_unit.
struct Line {
  double latency = 0, per_unit = 0;
  double at(double amount) const { return latency + amount * per_unit; }
  bool operator==(const Line&) const = default;
};
/// Through measured pairs of amount and seconds, by least squares; neither number below zero.
Line fit_line(const std::vector<std::pair<double, double>>& measured);

/// How much longer the slowest rank takes than all do on the mean, when they compute the same at the same time: 0.1 is
/// a tenth. Over whole steps, and where ranks wait for each other after every unit.
struct RankWaiting {
  double step = 0, unit = 0;
};

/// What ranks measured that worked at the same time.
struct TeamTables {
  int ranks = 1, threads = 1;  ///< on the node; of each rank
  std::vector<OperationTime> operations;
  std::vector<UpdateTime> updates;
  Line loss;                    ///< by numbers of output
  Line load;                    ///< by bytes
  std::optional<Line> message;  ///< by bytes; none: a rank alone has nobody to write to
  std::optional<Line> sum;      ///< a sum of gradients, by bytes
  /// A sum of gradients with the updates in between, without these; none: as `sum`.
  std::optional<Line> update_sum;
  std::map<std::string, double> codings;  ///< by training.communication: seconds for a value of a sum
  double small_sum = 0;
  RankWaiting waiting{};  ///< mean over networks and rounds
  /// How far rounds of measurement differ: (most - least) / median of a network's step, median over the networks.
  double spread = 0;
};

struct CostTables {
  Machine machine;
  std::string library;  ///< Backend::description()
  std::string version;  ///< version of the program
  double read = 0;      ///< bytes per second from a file; 0: not measured
  std::vector<TeamTables> teams;

  /// Takes over what `newer` has. Of a team with as many ranks and threads, operations of other sizes stay, and then
  /// the larger spread and waiting of both.
  void merge(const CostTables& newer);
};

std::string to_json(const CostTables& tables);
/// DataError, with the file's name, for anything else than such a file.
CostTables read_tables(const std::string& file);
/// tables-HOST.json in $XDG_CACHE_HOME/mrmf or ~/.cache/mrmf.
std::string tables_file();

/// A cost model of the measured team that is most like `wanted`. ConfigError for tables without a team. Keeps a copy.
std::unique_ptr<CostModel> table_costs(const CostTables& tables, const RankLayout& wanted);

}  // namespace mrmf
