#include "src/rank_planner/cost_tables.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>
#include <Eigen/Dense>
#include <nlohmann/json.hpp>

#include "io/files/input_file.hpp"
#include "io/files/limits.hpp"
#include "kernels/errors.hpp"

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

}  // namespace mrmf
