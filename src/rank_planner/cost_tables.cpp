// Times that `mrmf bench tables` measured on a machine, in a file, and what follows from them for other sizes. Declared
// in rank_planner.hpp.
#include <fmt/format.h>
#include <Eigen/Dense>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "io/files/input_file.hpp"
#include "kernels/errors.hpp"
#include "src/rank_planner/rank_planner.hpp"

namespace mrmf {

// A best point without negative coefficients is the plain best point of the terms that it uses. There are few terms, so
// all sets of them are tried.
std::vector<double> fit_terms(const std::vector<TimedWork>& measured) {
  if (measured.empty()) return {};
  const auto rows = static_cast<Eigen::Index>(measured.size());
  const auto terms = static_cast<Eigen::Index>(measured.front().terms.size());
  MRMF_CHECK(terms <= 8, "a fit tries all sets of its terms");
  Eigen::MatrixXd all(rows, terms);  // relative to the time, so that every measurement weighs the same
  for (Eigen::Index r = 0; r < rows; ++r) {
    const TimedWork& one = measured[static_cast<std::size_t>(r)];
    for (Eigen::Index t = 0; t < terms; ++t) all(r, t) = one.terms[static_cast<std::size_t>(t)] / one.seconds;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
  Eigen::VectorXd best = Eigen::VectorXd::Zero(terms);
  double least = std::numeric_limits<double>::infinity();
  for (unsigned set = 1; set < 1U << static_cast<unsigned>(terms); ++set) {
    std::vector<Eigen::Index> used;
    for (Eigen::Index t = 0; t < terms; ++t)
      if ((set >> static_cast<unsigned>(t) & 1U) != 0 && all.col(t).norm() > 0) used.push_back(t);
    if (used.empty()) continue;
    const Eigen::MatrixXd some = all(Eigen::all, used);
    const Eigen::VectorXd scale = some.colwise().norm();  // terms count from one to 1e12
    const Eigen::MatrixXd scaled = some * scale.cwiseInverse().asDiagonal();
    const Eigen::VectorXd found = scaled.completeOrthogonalDecomposition().solve(ones).cwiseQuotient(scale);
    if (found.minCoeff() < 0) continue;
    const double error = (some * found - ones).squaredNorm();
    if (error >= least) continue;
    least = error;
    best.setZero();
    for (std::size_t u = 0; u < used.size(); ++u) best(used[u]) = found(static_cast<Eigen::Index>(u));
  }
  return {best.data(), best.data() + terms};
}

using Json = nlohmann::ordered_json;

Line fit_line(const std::vector<std::pair<double, double>>& measured) {
  std::vector<TimedWork> terms;
  for (const auto& [amount, seconds] : measured) terms.push_back({{1, amount}, seconds});
  const std::vector<double> found = fit_terms(terms);
  return found.empty() ? Line{} : Line{found[0], found[1]};
}

namespace {

// Whether it was there.
bool replace_or_add(std::vector<OperationTime>& all, const OperationTime& point) {
  const auto same = std::ranges::find_if(all, [&](const OperationTime& old) {
    return old.key == point.key && old.shape == point.shape && old.rows == point.rows &&
           old.data.has_value() == point.data.has_value();
  });
  const bool there = same != all.end();
  there ? * same = point : all.emplace_back(point);
  return there;
}

void replace_or_add(std::vector<UpdateTime>& all, const UpdateTime& point) {
  const auto same = std::ranges::find_if(all, [&](const UpdateTime& old) {
    return old.optimizer == point.optimizer && old.parameters == point.parameters;
  });
  same != all.end() ? * same = point : all.emplace_back(point);
}

Json json_of(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json json_of(const Line& line) { return {{"latency", line.latency}, {"per_unit", line.per_unit}}; }
Json json_of(const std::optional<Line>& line) { return line ? json_of(*line) : Json(); }

Json json_of(const TeamTables& team) {
  Json operations = Json::array(), updates = Json::array();
  for (const OperationTime& o : team.operations)
    operations.push_back({{"operation", o.key},
                          {"input", o.shape},
                          {"rows", o.rows},
                          {"work", o.work},
                          {"flop", o.flop},
                          {"bytes", o.bytes},
                          {"forward", o.forward},
                          {"data_gradient", json_of(o.data)},
                          {"weight_gradient", json_of(o.weights)}});
  for (const UpdateTime& u : team.updates)
    updates.push_back({{"optimizer", u.optimizer}, {"parameters", u.parameters}, {"seconds", u.seconds}});
  return {{"ranks", team.ranks},
          {"threads", team.threads},
          {"loss_by_output", json_of(team.loss)},
          {"load_by_byte", json_of(team.load)},
          {"message_by_byte", json_of(team.message)},
          {"sum_by_byte", json_of(team.sum)},
          {"update_sum_by_byte", json_of(team.update_sum)},
          {"codings_by_value", team.codings},
          {"small_sum", team.small_sum},
          {"waiting", {{"step", team.waiting.step}, {"unit", team.waiting.unit}}},
          {"spread", team.spread},
          {"updates", updates},
          {"operations", operations}};
}

std::optional<double> number(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<double>());
}
std::optional<Line> line(const Json& json) {
  if (json.is_null()) return {};
  return Line{json.at("latency").get<double>(), json.at("per_unit").get<double>()};
}

RankWaiting waiting_of(const Json& json) { return {json.value("step", 0.0), json.value("unit", 0.0)}; }

// No time and no amount is negative. (JSON has neither infinities nor what is not a number.)
void require_times(const Json& json, const std::string& file) {
  if (json.is_number() && json.get<double>() < 0)
    throw DataError(fmt::format("{}: {} is below zero; measure the tables again", file, json.get<double>()));
  if (json.is_structured())
    for (const Json& part : json) require_times(part, file);
}

// Earlier tables lack some values.
TeamTables team_of(const Json& json) {
  TeamTables team{.ranks = json.at("ranks").get<int>(),
                  .threads = json.at("threads").get<int>(),
                  .operations = {},
                  .updates = {},
                  .loss = line(json.at("loss_by_output")).value_or(Line{}),
                  .load = line(json.at("load_by_byte")).value_or(Line{}),
                  .message = line(json.at("message_by_byte")),
                  .sum = line(json.at("sum_by_byte")),
                  .update_sum = line(json.value("update_sum_by_byte", Json())),
                  .codings = json.value("codings_by_value", std::map<std::string, double>()),
                  .small_sum = json.at("small_sum").get<double>(),
                  .waiting = waiting_of(json.value("waiting", Json::object())),
                  .spread = json.value("spread", 0.0)};
  for (const Json& o : json.at("operations"))
    team.operations.push_back({o.at("operation").get<std::string>(), o.at("input").get<std::string>(),
                               o.at("rows").get<double>(), o.at("work").get<double>(), o.at("flop").get<double>(),
                               o.at("bytes").get<double>(), o.at("forward").get<double>(),
                               number(o.at("data_gradient")), number(o.at("weight_gradient"))});
  for (const Json& u : json.at("updates"))
    team.updates.push_back(
        {u.at("optimizer").get<std::string>(), u.at("parameters").get<double>(), u.at("seconds").get<double>()});
  return team;
}

}  // namespace

void CostTables::merge(const CostTables& newer) {
  const int cores = machine.host == newer.machine.host ? machine.cores : 0;  // some ranks may use only a part of them
  machine = newer.machine;
  machine.cores = std::max(machine.cores, cores);
  library = newer.library;
  version = newer.version;
  if (newer.read > 0) read = newer.read;
  for (const TeamTables& team : newer.teams) {
    const auto same = std::ranges::find_if(
        teams, [&](const TeamTables& old) { return old.ranks == team.ranks && old.threads == team.threads; });
    if (same == teams.end()) {
      teams.push_back(team);
      continue;
    }
    TeamTables merged = team;
    merged.operations = std::move(same->operations);
    merged.updates = std::move(same->updates);
    auto old = std::ssize(merged.operations);
    for (const OperationTime& point : team.operations)
      if (replace_or_add(merged.operations, point)) --old;
    if (old > 0) {
      merged.spread = std::max(team.spread, same->spread);
      merged.waiting.step = std::max(team.waiting.step, same->waiting.step);
      merged.waiting.unit = std::max(team.waiting.unit, same->waiting.unit);
    }
    for (const UpdateTime& point : team.updates) replace_or_add(merged.updates, point);
    *same = std::move(merged);
  }
}

std::string to_json(const CostTables& tables) {
  Json teams = Json::array();
  for (const TeamTables& team : tables.teams) teams.push_back(json_of(team));
  return Json{{"kind", "mrmf cost tables"},
              {"host", tables.machine.host},
              {"processor", tables.machine.processor},
              {"cores", tables.machine.cores},
              {"memory_gib", tables.machine.memory_gib},
              {"library", tables.library},
              {"version", tables.version},
              {"read_bytes_per_second", tables.read},
              {"teams", teams}}
             .dump(1) +
         "\n";
}

CostTables read_tables(const std::string& file) {
  const std::string text = read_file(file);
  require_shallow_json(text, file);
  try {
    const Json json = Json::parse(text);
    if (json.at("kind") != "mrmf cost tables") throw DataError(file + ": no tables of mrmf bench tables");
    require_times(json, file);
    CostTables tables;
    tables.machine = {json.at("host").get<std::string>(), json.at("processor").get<std::string>(),
                      json.at("cores").get<int>(), json.at("memory_gib").get<double>()};
    tables.library = json.at("library").get<std::string>();
    tables.version = json.at("version").get<std::string>();
    tables.read = json.at("read_bytes_per_second").get<double>();
    for (const Json& team : json.at("teams")) tables.teams.push_back(team_of(team));
    return tables;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(file + ": no tables of mrmf bench tables (" + error.what() + "); measure them again");
  }
}

std::string tables_file() {
  const auto folder = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value != nullptr ? value : "");
  };
  const std::string cache = folder("XDG_CACHE_HOME"), home = folder("HOME");
  return (cache.starts_with('/') ? cache : home + "/.cache") + "/mrmf/tables-" + host_name() + ".json";
}

// Times of operations from measured ones: the same size, between two sizes of the same operation, or by a fit over all
// operations of its kind.

namespace {

enum Pass { forward, data, weights };
constexpr std::array kPasses{forward, data, weights};

std::optional<double> seconds_of(const OperationTime& point, Pass pass) {
  return pass == forward ? std::optional(point.forward) : pass == data ? point.data : point.weights;
}

/// Measured sizes of one operation, by work.
using Curve = std::vector<std::pair<double, double>>;

// Beyond the largest size the time per work stays; below the smallest the line through the two smallest continues, but
// no further down than half of the smallest's time per work allows.
double along(const Curve& curve, double work) {
  const auto& [first_work, first] = curve.front();
  const auto& [last_work, last] = curve.back();
  if (work >= last_work) return last * work / last_work;
  if (curve.size() == 1) return first * work / first_work;
  auto next = std::ranges::upper_bound(curve, work, {}, &std::pair<double, double>::first);
  if (next == curve.begin()) ++next;
  const auto& [x1, y1] = *next;
  const auto& [x0, y0] = *(next - 1);
  const double between = y0 + (y1 - y0) * (work - x0) / (x1 - x0);
  return std::max(between, 0.5 * y0 * work / x0);
}

// "batch_norm 16+relu" is of the kind "batch_norm+relu".
std::string kind_of(const std::string& key) {
  std::string kind;
  bool word = true;
  for (const char c : key) {
    if (c == '+') kind += c, word = true;
    if (c == ' ') word = false;
    if (word && c != '+') kind += c;
  }
  return kind;
}

/// What is known of one pass of the operations of one key, or of one kind.
struct Known {
  std::array<Curve, 3> curves;
  std::array<std::vector<TimedWork>, 3> terms;
  std::array<std::vector<double>, 3> fit;
};

class TableCosts final : public CostModel {
 public:
  TableCosts(const CostTables& tables, const TeamTables& team, const RankLayout& wanted)
      : tables_(tables), team_(team), wanted_(wanted) {
    for (const OperationTime& point : team_.operations) add(point);
    for (auto& [key, known] : keys_)
      for (Curve& curve : known.curves) join(curve);
    for (auto& [kind, known] : kinds_)
      for (const Pass pass : kPasses) known.fit[pass] = fit_terms(known.terms[pass]);
    for (const Pass pass : kPasses) all_.fit[pass] = fit_terms(all_.terms[pass]);
  }

  std::string description() const override {
    return fmt::format("times measured on {} ({}, {} core{}) with {} rank{} of {} thread{}: {}", tables_.machine.host,
                       tables_.machine.processor, tables_.machine.cores, tables_.machine.cores == 1 ? "" : "s",
                       team_.ranks, team_.ranks == 1 ? "" : "s", team_.threads, team_.threads == 1 ? "" : "s",
                       tables_.library);
  }

  std::vector<std::string> assumptions() const override {
    std::vector<std::string> lines;
    constexpr double kSteady = 0.1;  // above it, a wrong prediction may be no more than a slow machine
    if (team_.spread > kSteady)
      lines.push_back(
          fmt::format("{} is as fast as when it was measured; rounds differed by {:.0f} %, so measure again "
                      "when it is quiet",
                      tables_.machine.host, 100 * team_.spread));
    if (wanted_.per_node != team_.ranks)
      lines.push_back(fmt::format("{} rank{} on a node, measured with {}: start mrmf bench tables with as many",
                                  wanted_.per_node, wanted_.per_node == 1 ? "" : "s", team_.ranks));
    if (wanted_.ranks > wanted_.per_node)
      lines.push_back("messages and sums between nodes take as long as within one, which nobody measured");
    if (crowding(wanted_) > 1)
      lines.push_back(fmt::format("{} ranks of {} threads share {} cores, and computation takes {:.3g} times as long",
                                  wanted_.per_node, team_.threads, tables_.machine.cores, crowding(wanted_)));
    return lines;
  }

  PassSeconds operation(const Operation& operation, double rows) const override {
    PassSeconds seconds;
    if (operation.gives_no_work) return seconds;
    seconds.forward = pass_seconds(operation, rows, forward);
    if (operation.data_gradient) seconds.data = pass_seconds(operation, rows, data);
    if (operation.parameters > 0) seconds.weights = pass_seconds(operation, rows, weights);
    return seconds;
  }

  CostSource source(const Operation& operation, double rows) const override {
    if (operation.gives_no_work) return CostSource::measured;
    const Curve* curve = curve_of(operation.key, forward);
    if (curve == nullptr) return CostSource::fitted;
    const double work = rows * operation.work();
    for (const auto& [measured, seconds] : *curve)
      if (std::abs(measured - work) <= 0.02 * work) return CostSource::measured;
    return CostSource::between;
  }

  double loss(double outputs) const override { return team_.loss.at(outputs); }
  double messages(const std::vector<double>& bytes, const RankLayout&) const override {
    double seconds = 0;
    if (!team_.message || bytes.empty()) return seconds;
    // Started together, so latencies overlap, and bytes share the memory.
    seconds = team_.message->latency;
    for (const double each : bytes) seconds += each * team_.message->per_unit;
    return seconds;
  }
  double gradient_sum(double bytes, double, const RankLayout& ranks) const override {
    return sum_seconds(team_.sum, bytes, ranks);
  }
  // Measured in the memory of one node, which ranks of several do not share.
  double update_sum(double bytes, double backward, const RankLayout& ranks) const override {
    if (!team_.update_sum || ranks.ranks > ranks.per_node) return gradient_sum(bytes, backward, ranks);
    return sum_seconds(team_.update_sum, bytes, ranks);
  }
  double coding(Communication scheme, double values) const override {
    const auto measured = team_.codings.find(to_string(scheme));
    return measured == team_.codings.end() ? 0 : values * measured->second;
  }
  double small_sum(const RankLayout& ranks) const override {
    return ranks.ranks == 1 ? 0 : team_.small_sum * rounds(ranks);
  }

  double waiting(bool within_step, const RankLayout& ranks) const override {
    if (ranks.ranks == 1) return 0;
    return within_step ? team_.waiting.unit : team_.waiting.step;
  }

  double update(OptimizerKind kind, Index parameters) const override {
    Curve curve;
    for (const UpdateTime& point : team_.updates)
      if (point.optimizer == to_string(kind)) curve.emplace_back(point.parameters, point.seconds);
    if (curve.empty())  // only another optimizer was measured
      for (const UpdateTime& point : team_.updates) curve.emplace_back(point.parameters, point.seconds);
    join(curve);
    return curve.empty() ? 0 : along(curve, static_cast<double>(parameters));
  }

  double load(double bytes) const override { return team_.load.at(bytes); }
  double read(double bytes) const override { return tables_.read > 0 ? bytes / tables_.read : 0; }
  double memory() const override { return 0; }
  double crowding(const RankLayout& ranks) const override {
    const int measured = team_.ranks * team_.threads;  // at once: sharing of cores is in the times
    return std::max(1.0,
                    static_cast<double>(ranks.per_node) * team_.threads / std::max(tables_.machine.cores, measured));
  }

 private:
  void add(const OperationTime& point) {
    for (const Pass pass : kPasses) {
      const std::optional<double> seconds = seconds_of(point, pass);
      if (!seconds || *seconds <= 0 || point.work <= 0) continue;
      const TimedWork terms{{1, point.flop, point.bytes}, *seconds};
      keys_[point.key].curves[pass].emplace_back(point.work, *seconds);
      kinds_[kind_of(point.key)].terms[pass].push_back(terms);
      all_.terms[pass].push_back(terms);
    }
  }

  // In order of work; of equal work the mean: those differ in their proportions.
  static void join(Curve& curve) {
    std::ranges::sort(curve);
    Curve joined;
    for (std::size_t i = 0; i < curve.size();) {
      std::size_t end = i;
      double sum = 0;
      for (; end < curve.size() && curve[end].first <= 1.001 * curve[i].first; ++end) sum += curve[end].second;
      joined.emplace_back(curve[i].first, sum / static_cast<double>(end - i));
      i = end;
    }
    curve = std::move(joined);
  }

  const Curve* curve_of(const std::string& key, Pass pass) const {
    const auto known = keys_.find(key);
    return known == keys_.end() || known->second.curves[pass].empty() ? nullptr : &known->second.curves[pass];
  }

  // The time of the same shape and rows; else along the sizes of the same operation; else by the fit of its kind, or of
  // all.
  double pass_seconds(const Operation& operation, double rows, Pass pass) const {
    const std::string shape = to_string(operation.in);
    for (const OperationTime& point : team_.operations)
      if (point.key == operation.key && point.shape == shape && std::abs(point.rows - rows) < 1e-9)
        if (const std::optional<double> seconds = seconds_of(point, pass)) return *seconds;
    if (const Curve* curve = curve_of(operation.key, pass)) return along(*curve, rows * operation.work());
    const auto kind = kinds_.find(kind_of(operation.key));
    const bool known = kind != kinds_.end() && !kind->second.fit[pass].empty();
    // A pass that operations of this kind do not have takes no time.
    if (kind != kinds_.end() && !known) return 0;
    const std::vector<double>& fit = known ? kind->second.fit[pass] : all_.fit[pass];
    if (fit.empty()) return 0;
    const double bytes = kFloatBytes * (rows * operation.elements + static_cast<double>(operation.parameters));
    return fit[0] + fit[1] * rows * operation.flop + fit[2] * bytes;
  }

  double sum_seconds(const std::optional<Line>& line, double bytes, const RankLayout& ranks) const {
    return ranks.ranks == 1 || !line ? 0 : line->latency * rounds(ranks) + bytes * line->per_unit * ring(ranks);
  }

  // Against the measured number of ranks: rounds of messages, and the share of bytes that a ring sends.
  double rounds(const RankLayout& ranks) const {
    return std::log2(std::max(ranks.ranks, 2)) / std::log2(std::max(team_.ranks, 2));
  }
  double ring(const RankLayout& ranks) const {
    const auto share = [](int n) { return 1 - 1.0 / std::max(n, 2); };
    return share(ranks.ranks) / share(team_.ranks);
  }

  CostTables tables_;
  TeamTables team_;
  RankLayout wanted_;
  std::map<std::string, Known> keys_, kinds_;
  Known all_;
};

}  // namespace

std::unique_ptr<CostModel> table_costs(const CostTables& tables, const RankLayout& wanted) {
  if (tables.teams.empty()) throw ConfigError("the tables have no measurement; start mrmf bench tables");
  // As many ranks on a node, else the most below, else the fewest.
  const auto distance = [&](const TeamTables& team) {
    const int more = team.ranks - wanted.per_node;
    return more <= 0 ? -more : 1000000 + more;
  };
  const auto best = std::ranges::min_element(tables.teams, {}, distance);
  return std::make_unique<TableCosts>(tables, *best, wanted);
}

}  // namespace mrmf
